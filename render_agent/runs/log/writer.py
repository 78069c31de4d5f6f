"""Writes a run folder: creates it, locks it, and appends turn by turn."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from render_agent.dialogue.question import Question
from render_agent.dialogue.turn import LogLine
from render_agent.errors import RenderAgentError
from render_agent.runs.log.lines import (
    line_to_json,
    questions_text,
)
from render_agent.runs.log.lock import FolderLock
from render_agent.runs.log.row import csv_text
from render_agent.runs.log.schema import FORMAT
from render_agent.util.atomic_files import (
    RESUME,
    atomic_write,
    json_bytes,
    make_folders,
    read_json,
    read_lines,
    sync_folder,
    write_all,
    write_errors,
)
from render_agent.util.safe_parse import MAX_LINE_BYTES, encode_line
from render_agent.views.image_store import ImageStore

NAME_FORMAT = "%Y%m%dT%H%M%S"  # name of a run folder: local time of creation, to the second


class TurnLog(Protocol):
    """Records turns in a run folder, or sends them to the process that owns it."""

    images: ImageStore

    def append(self, line: LogLine) -> None:
        """Append a turn, or the error that stopped a question. Not durable until `sync`."""
        ...

    def sync(self) -> None:
        """Wait until everything appended is on disk."""
        ...


class RunLog:
    """A run folder open for writing, locked against other processes until `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FolderLock(self.path)
        self.images = ImageStore(self.path, self._lock.check)
        self._turns: FileIO | None = None
        self._pending: list[bytes] = []

    @classmethod
    def create(cls, output: Path, kind: str, record: Mapping[str, Any]) -> RunLog:
        """Create a run folder named after the current time and write its `config.json`."""
        make_folders(output, durable=True)
        path = new_folder(output, kind)
        try:
            atomic_write(path / "config.json", json_bytes({"format": FORMAT, **record}))
            sync_folder(output)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return cls(path)

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Replace `config.json` atomically."""
        self._lock.check()
        atomic_write(self.path / "config.json", json_bytes(record))

    def add_start_check(self, check: Mapping[str, Any] | None) -> None:
        """Add the result of an engine's start check to `config.json`, unless one with the same caveats is recorded."""
        file = self.path / "config.json"
        checks = [] if check is None else (record := read_json(file)).get("start_checks", [])
        if check is not None and check["caveats"] not in [one["caveats"] for one in checks]:
            self.write_record({**record, "start_checks": [*checks, check]})

    def write_questions(self, questions: Iterable[Question]) -> None:
        """Write `questions.jsonl` atomically."""
        atomic_write(self.path / "questions.jsonl", questions_text(questions))

    @property
    def exists(self) -> bool:
        """True if the run folder has not been deleted, moved or replaced."""
        return self._lock.exists

    @property
    def warning(self) -> str:
        """Message for the user if the folder could not be locked, otherwise empty."""
        return self._lock.warning

    def append(self, line: LogLine) -> None:
        """Append a turn, or the error that stopped a question. Not durable until `sync`."""
        self.append_line(line_to_json(line))

    def sync(self) -> None:
        """Write appended lines durably.

        Images are durable before their turn is appended, so every file mentioned in a line exists.
        """
        if not self._pending:
            return
        lines, self._pending = b"".join(self._pending), []
        self._lock.check()
        with write_errors(self.path / "turns.jsonl", RESUME):
            if self._turns is None:
                self._turns = self._open_turns()
            write_all(self._turns, lines)
            os.fsync(self._turns.fileno())

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Write `results.csv`, then `results.json`, which marks the run as finished."""
        self.sync()
        self._lock.check()
        atomic_write(self.path / "results.csv", csv_text(results["questions"]).encode())
        atomic_write(self.path / "results.json", json_bytes(results))

    def write_results_of(self, parser: str, results: Mapping[str, Any]) -> None:
        """Write the results of another parser next to the official ones."""
        atomic_write(self.path / f"results.{parser}.json", json_bytes(results))

    def close(self) -> None:
        """Finish writing and unlock. Raises RunLogError if pending lines cannot be written."""
        try:
            self.images.close()
            self.sync()
        finally:
            if self._turns is not None:
                self._turns.close()
                self._turns = None
            self._lock.close()

    def append_line(self, line: Mapping[str, Any]) -> None:
        """Append a line unchanged, for example from the log of another run."""
        data = encode_line(dict(line))
        # Readers would reject the line, and with it the whole log.
        if len(data) > MAX_LINE_BYTES:
            raise RenderAgentError(
                f"turn {line.get('turn')} has {len(data):,} bytes, more than the maximum of"
                f" {MAX_LINE_BYTES:,} per log line. Lower --max-new-tokens or the number of candidates."
            )
        self._pending.append(data)

    def _open_turns(self) -> FileIO:
        path = self.path / "turns.jsonl"
        if path.is_file():
            _, complete_bytes = read_lines(path)
            os.truncate(path, complete_bytes)
        file = path.open("ab", buffering=0)
        sync_folder(self.path)
        return file


def new_folder(output: Path, kind: str) -> Path:
    """Create a folder named after the current time, or the next second that is free."""
    time = datetime.now()
    while True:
        name = time.strftime(NAME_FORMAT)
        time += timedelta(seconds=1)
        if any(output.glob(f"{name}_*")):
            continue
        with write_errors(output), suppress(FileExistsError):  # another process created it first
            (output / f"{name}_{kind}").mkdir()
            return output / f"{name}_{kind}"
