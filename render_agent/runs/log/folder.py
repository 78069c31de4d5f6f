"""A run folder: created, locked, found, read and written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

from render_agent.config import RunConfig, fingerprint_of
from render_agent.config.option import did_you_mean
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.errors import RenderAgentError, RunLogError, UsageError
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
from render_agent.util.contained_paths import refuse_ways_out
from render_agent.util.reasons import shortened
from render_agent.util.safe_parse import MAX_LINE_BYTES, convert, encode, parse_json
from render_agent.util.whole_files import (
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
from render_agent.views.picture_store import Pictures

NAME_FORMAT = "%Y%m%dT%H%M%S"
"""Name of a run folder: the second it was created, in local time."""


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
        """The content of `config.json`. RunLogError if a required field is missing or has the wrong type."""
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

    @cached_property
    def config(self) -> RunConfig:
        """The options of the run. RunLogError if `config.json` was edited."""
        saved = self.record["config"]
        if fingerprint_of(saved) != self.record["fingerprint"]:
            raise RunLogError(
                f"{self.path / 'config.json'} was edited after the run began: its options do not match their"
                " fingerprint; undo the change, or start a new run with the options you want"
            )
        try:
            return RunConfig.from_json(saved)
        except UsageError as error:
            raise RunLogError(
                f"{self.path} cannot be read ({error}): it was written by render_agent"
                f" {shortened(self.record['program'], 40)}; use that version, or a newer one"
            ) from error

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
        """Return the whole lines of `turns.jsonl`, empty if it does not exist yet.

        of: id of a question; other questions' lines are left out. RunLogError if a line is damaged.
        """
        turns = self.path / "turns.jsonl"
        if not turns.exists():
            return []
        lines = read_lines(turns, read_line)[0]
        return [line for line in lines if of in (None, line.head.question_id)]

    def lines(self, of: str | None = None) -> list[dict[str, Any]]:
        """Return the same lines as plain values."""
        turns = self.path / "turns.jsonl"
        lines: list[dict[str, Any]] = read_lines(turns)[0] if turns.exists() else []
        return [line for line in lines if of in (None, line["question_id"])]

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


class RunLog:
    """A run folder being written, locked against every other process until `close`."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.path = folder.path
        self._lock = FolderLock(self.path)
        self.pictures = Pictures(self.path, self._lock.check)
        self._turns: FileIO | None = None
        self._pending: list[bytes] = []

    @classmethod
    def create(cls, output: Path, kind: str, record: Mapping[str, Any]) -> RunLog:
        """Make a new run folder named after the present second and write its `config.json`.

        kind: `batched` or `single`. record: the content of `config.json`. RunLogError if the folder cannot be
        written.
        """
        make_folders(output, durable=True)
        with writing(output):
            path = _new_folder(output, kind)
        try:
            write_whole(path / "config.json", json_bytes({"format": FORMAT, **record}))
            sync_folder(output)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
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

    @property
    def warning(self) -> str:
        """What to tell the user if the folder could not be locked; else empty."""
        return self._lock.warning

    def append(self, question_id: str, turn: Turn) -> None:
        """Append one turn; it exists from the next `sync` on."""
        self.append_line(turn_to_json(question_id, turn))

    def append_error(self, failed: Failed) -> None:
        """Append the error that stopped a question."""
        self.append_line(error_to_json(failed))

    def sync(self) -> None:
        """Write what was appended; it survives the machine's death when this returns, with its pictures.

        Pictures are durable before their turn is appended, so that every file that a line names exists. RunLogError if
        the disk is full or the folder is gone.
        """
        if not self._pending:
            return
        lines, self._pending = b"".join(self._pending), []
        self._lock.check()
        with writing(self.path / "turns.jsonl"):
            if self._turns is None:
                self._turns = self._open_turns()
            write_all(self._turns, lines)
            os.fsync(self._turns.fileno())

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
        """Append a line, such as one of another run's log."""
        written = encode(dict(line))
        if len(written) > MAX_LINE_BYTES:  # readers would refuse it, and the whole log with it
            raise RenderAgentError(
                f"its turn {line.get('turn')} has {len(written):,} bytes, and a line of the log at most"
                f" {MAX_LINE_BYTES:,}: lower --max-new-tokens or the number of candidates"
            )
        self._pending.append(written)

    def _open_turns(self) -> FileIO:
        path = self.path / "turns.jsonl"
        if path.is_file():
            _, whole = read_lines(path)
            os.truncate(path, whole)
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


def _new_folder(output: Path, kind: str) -> Path:
    """Make a folder named after the present second, or after the next one that is free."""
    moment = datetime.now()
    while True:
        name = moment.strftime(NAME_FORMAT)
        moment += timedelta(seconds=1)
        if any(output.glob(f"{name}_*")):
            continue
        with suppress(FileExistsError):  # another process was faster
            (output / f"{name}_{kind}").mkdir()
            return output / f"{name}_{kind}"
