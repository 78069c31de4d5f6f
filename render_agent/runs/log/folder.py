"""A run folder: created, locked, found, read and written."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from render_agent.config import RunConfig, fingerprint_of
from render_agent.config.option import did_you_mean
from render_agent.dialogue.state import Question, QuestionState, Turn
from render_agent.errors import RenderAgentError, RunLogError, UsageError
from render_agent.observation.picture_store import Pictures
from render_agent.runs.log.lines import (
    Failed,
    Line,
    error_to_json,
    question_from_json,
    question_to_json,
    read_line,
    replay,
    turn_to_json,
)
from render_agent.runs.log.lock import FolderLock
from render_agent.runs.log.schema import FORMAT, Record, Results, check_format
from render_agent.system.contained_paths import refuse_ways_out
from render_agent.system.whole_files import (
    json_bytes,
    json_lines,
    make_folders,
    read_json,
    read_lines,
    sync_folder,
    write_all,
    write_whole,
    writing,
)
from render_agent.text.reasons import shortened
from render_agent.text.safe_parse import MAX_LINE_BYTES, convert, encode, parse_json

T = TypeVar("T")

DRAFT = ".new-"
DRAFT_SECONDS = 600.0
"""What a run folder is called until it has its name, and for how long it may be."""

NAME_FORMAT = "%Y%m%dT%H%M%S"
"""How a run folder is named after the second it began, local time."""


MAX_OLD_LINE_BYTES = 4 * MAX_LINE_BYTES
"""Of a line of `turns.jsonl` that is read; earlier versions wrote longer ones than MAX_LINE_BYTES."""


class RunFolder:
    """One run on disk, for reading; `RunLog` writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / "config.json").is_file():
            raise RunLogError(f"{path} is not a run folder: it has no config.json")
        refuse_ways_out(path)
        self._record: dict[str, Any] = read_json(path / "config.json")
        check_format(path, self._record)

    @cached_property
    def record(self) -> dict[str, Any]:
        """What `config.json` holds. RunLogError where it was edited into something else."""
        try:
            convert(self._record, Record)
        except ValueError as error:
            raise RunLogError(
                f"{self.path / 'config.json'} is damaged: {error}; restore the file"
            ) from error
        return self._record

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def config(self) -> RunConfig:
        """The options of the run. RunLogError where `config.json` was edited."""
        saved = self.record["config"]
        try:
            config = RunConfig.from_json(saved)
        except UsageError as error:
            raise RunLogError(
                f"{self.path} cannot be read ({error}): it was written by render_agent"
                f" {shortened(self.record['program'], 40)}; use that version, or a newer one"
            ) from error
        if fingerprint_of(saved) != self.record["fingerprint"]:
            raise RunLogError(
                f"{self.path / 'config.json'} was edited after the run began: its options do not fit"
                " their fingerprint; undo the change, or start a new run with the options you want"
            )
        return config

    @property
    def has_questions(self) -> bool:
        """Whether `questions.jsonl` is there; it is written whole, after `config.json`."""
        return (self.path / "questions.jsonl").is_file()

    def questions(self) -> list[Question]:
        """Return the chosen questions in their order. RunLogError where one cannot be read."""
        return read_lines(
            self.path / "questions.jsonl", lambda line: question_from_json(parse_json(line))
        )[0]

    def turns(self, of: str | None = None) -> list[Line]:
        """Return the whole lines of `turns.jsonl`, none where it is not there yet.

        of: the id of a question whose lines alone are read, all unless given.
        RunLogError where one is no line of a log.
        """
        return [line for line, _ in self._read_turns(lambda line: (read_line(line), None), of)]

    def lines(self, of: str | None = None) -> list[dict[str, Any]]:
        """Return the same lines as plain values, with whatever else stands in them."""
        return [
            values for _, values in self._read_turns(lambda s: (read_line(s), parse_json(s)), of)
        ]

    def _read_turns(
        self, read: Callable[[bytes], tuple[Line, T]], of: str | None
    ) -> list[tuple[Line, T]]:
        turns = self.path / "turns.jsonl"
        if not turns.exists():
            return []
        if of is None:
            return read_lines(turns, read, MAX_OLD_LINE_BYTES)[0]
        own = encode(of)[1:-2]

        def read_own(line: bytes) -> tuple[Line, T] | None:
            owner = _OWNER.match(line)
            return None if owner and owner[1] != own else read(line)

        lines = read_lines(turns, read_own, MAX_OLD_LINE_BYTES)[0]
        return [entry for entry in lines if entry is not None and entry[0].head.question_id == of]

    def replay(
        self,
        states: Mapping[str, QuestionState],
        lines: Iterable[Line] | None = None,
    ) -> None:
        """Give every logged turn back to its state. RunLogError where a line does not fit.

        lines: those of the log, where they were read already.
        """
        try:
            replay(self.turns() if lines is None else lines, states)
        except ValueError as error:
            raise RunLogError(f"{self.path / 'turns.jsonl'} is damaged: {error}") from error

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end: `results.json` is written last."""
        return (self.path / "results.json").is_file()

    def results(self) -> dict[str, Any] | None:
        """Return `results.json`, None where the run has not come to its end.

        RunLogError where it is damaged.
        """
        path = self.path / "results.json"
        if not self.finished:
            return None
        saved: dict[str, Any] = read_json(path)
        try:
            convert(saved, Results)
        except ValueError as error:
            raise RunLogError(
                f"{path} is damaged: {error}; remove it, and make it anew with render-agent --continue"
                f" {self.path}"
            ) from error
        return saved


_OWNER = re.compile(rb'\{"question_id": "([^"\\]*)"')
"""How a line of the log begins where nothing in the id of its question had to be escaped."""


class RunLog:
    """A run folder being written, locked against every other process until `close`."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.path = folder.path
        self._lock = FolderLock(self.path)
        self.pictures = Pictures(self.path, self._lock.check)
        self._turns: FileIO | None = None
        self._size = 0
        self._pending: list[bytes] = []

    @classmethod
    def create(cls, output: Path, kind: str, record: Mapping[str, Any]) -> RunLog:
        """Make a new run folder named by the present second; `config.json` is in it from the start.

        kind: `batched` or `single`. record: what `config.json` holds. RunLogError where the folder
        cannot be written.
        """
        make_folders(output, durable=True)
        _remove_old_drafts(output)
        with writing(output):
            draft = output / f"{DRAFT}{secrets.token_hex(4)}"
            draft.mkdir()
        try:
            write_whole(draft / "config.json", json_bytes({"format": FORMAT, **record}))
            with writing(output):
                path = _claim(draft, output, kind)
            sync_folder(output)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return cls(RunFolder(path))

    def write_questions(self, questions: Iterable[Question]) -> None:
        """Write `questions.jsonl`, whole or not at all."""
        lines = json_lines(question_to_json(question) for question in questions)
        write_whole(self.path / "questions.jsonl", lines)

    @property
    def there(self) -> bool:
        """Whether the run folder is still the one that was opened."""
        return self._lock.there

    def append(self, question_id: str, turn: Turn) -> None:
        """Append one turn; it exists from the next `sync` on."""
        self.append_line(turn_to_json(question_id, turn))

    def append_error(self, failed: Failed) -> None:
        """Append the error that stopped a question."""
        self.append_line(error_to_json(failed))

    def sync(self) -> None:
        """Write what was appended; when this returns it survives the machine's death, with its pictures.

        Its pictures were durable before it was appended, so that whatever a line on disk names is there.
        RunLogError where the disk takes no more, and where something else writes the log.
        """
        if not self._pending:
            return
        lines, self._pending = b"".join(self._pending), []
        self._lock.check()
        with writing(self.path / "turns.jsonl"):
            if self._turns is None:
                self._turns = self._open_turns()
            status = os.fstat(self._turns.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size != self._size:
                raise RunLogError(
                    f"{self.path / 'turns.jsonl'} has {status.st_size:,} bytes where this process wrote"
                    f" {self._size:,}: another process writes this run; stop one of them, then go on"
                )
            write_all(self._turns, lines)
            os.fsync(self._turns.fileno())
            self._size += len(lines)

    def write_results(self, results: Mapping[str, Any], table: str) -> None:
        """Write `results.csv`, then `results.json`, which marks the end."""
        self.sync()
        self._lock.check()
        write_whole(self.path / "results.csv", table.encode())
        write_whole(self.path / "results.json", json_bytes(results))

    def write_results_of(self, parser: str, results: Mapping[str, Any]) -> None:
        """Write the results by another parser beside the official ones."""
        write_whole(self.path / f"results.{parser}.json", json_bytes(results))

    def close(self) -> None:
        """Finish writing and unlock. RunLogError where what was appended cannot be written."""
        try:
            self.pictures.close()
            self.sync()
        finally:
            if self._turns is not None:
                self._turns.close()
                self._turns = None
            self._lock.close()

    def append_line(self, line: Mapping[str, Any]) -> None:
        """Append a line, such as another run's log holds."""
        written = encode(dict(line))
        if len(written) > MAX_LINE_BYTES:  # a reader refuses it, and the whole log with it
            raise RenderAgentError(
                f"its turn {line.get('turn')} has {len(written):,} bytes, and a line of the log at most"
                f" {MAX_LINE_BYTES:,}: lower --max-new-tokens or the number of candidates"
            )
        self._pending.append(written)

    def _open_turns(self) -> FileIO:
        path = self.path / "turns.jsonl"
        self._size = 0
        if path.is_file():
            _, self._size = read_lines(path, most=MAX_OLD_LINE_BYTES)
            with path.open("r+b") as torn:
                torn.truncate(self._size)
        file = path.open("ab", buffering=0)
        sync_folder(self.path)
        return file


NO_RUNS = "start one with --batch or --ply, or name the folder of runs by --output DIR"
"""What to do where a folder holds no run."""


def find_run(output: Path, which: str) -> RunFolder:
    """Return the run that `recent`, a name or a path means. RunLogError where there is none."""
    if which == "recent":
        runs = list_runs(output)
        if not runs:
            raise RunLogError(f"there is no run in {output} yet: {NO_RUNS}")
        return RunFolder(runs[-1])
    for path in (output / which, Path(which)):
        if path.is_dir():
            return RunFolder(path)
    near = did_you_mean(which, [path.name for path in list_runs(output)])
    raise RunLogError(f"there is no run {which!r}, neither in {output} nor as a path{near}")


def list_runs(output: Path) -> list[Path]:
    """Return the run folders in `output`, oldest first."""
    if not output.is_dir():
        return []
    folders = (path for path in output.iterdir() if not path.name.startswith("."))
    return sorted(path for path in folders if (path / "config.json").is_file())


def _remove_old_drafts(output: Path) -> None:
    """Remove the drafts of run folders whose processes were killed: one has its name within the second."""
    for draft in output.glob(f"{DRAFT}????????"):
        with suppress(OSError):
            names = {path.name for path in draft.iterdir()}
            old = time.time() - draft.lstat().st_mtime > DRAFT_SECONDS
            if old and not draft.is_symlink() and names <= {"config.json", ".config.json.part"}:
                shutil.rmtree(draft)


def _claim(draft: Path, output: Path, kind: str) -> Path:
    """Give a new run folder its name: the present second, or the next that is free."""
    moment = max(datetime.now(), _after_the_newest(output))
    for later in range(600):
        name = (moment + timedelta(seconds=later)).strftime(NAME_FORMAT)
        if any((output / f"{name}_{taken}").exists() for taken in ("batched", "single")):
            continue
        try:
            return draft.rename(output / f"{name}_{kind}")
        except OSError as error:
            # where not another process took the name in between
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    raise RunLogError(f"cannot make a run folder in {output}: its names are taken")


def _after_the_newest(output: Path) -> datetime:
    """Return the second after the newest run's, where that is of the last day: a clock may be set back.

    So the newest run is the one that began last, also in the hour that summer time has twice.
    """
    runs = list_runs(output)
    try:
        newest = datetime.strptime(runs[-1].name[:15], NAME_FORMAT) + timedelta(seconds=1)
    except (IndexError, ValueError):  # there is none, or it has another name
        return datetime.min
    return newest if newest < datetime.now() + timedelta(days=1) else datetime.min
