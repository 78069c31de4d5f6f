"""The state of a run that is followed as its log grows, and the pages of its report, made on demand."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from render_agent.analysis.diagnosis.diagnose import cached_diagnoses
from render_agent.analysis.diagnosis.model import Diagnosis
from render_agent.analysis.related_runs import siblings
from render_agent.analysis.report.data import ReportData, neighbours
from render_agent.analysis.report.index.index_page import write_index
from render_agent.analysis.report.question.question_page import (
    page_of_part,
    plans_of,
    question_part,
)
from render_agent.dialogue.state import Phase
from render_agent.errors import RunLogError, os_errors
from render_agent.observation.picture_store import safe_name
from render_agent.render.png import SIGNATURE
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.lines import Line, read_line, replay
from render_agent.runs.log.reader import read_states, results_of
from render_agent.runs.log.results import row
from render_agent.system.contained_paths import picture_path
from render_agent.text.safe_parse import MisfitError, read_bounded

MAX_PICTURE_BYTES = 256 << 20

SHARE = 4
"""A page that changes is made again in at most one part in so many of the time."""

Version = tuple[int, bool]
"""How many turns a page tells of, and whether the run was finished."""


@dataclass
class Tail:
    """The whole lines of a growing file of JSON lines, each given once.

    A last line that is still being written is left for later.
    """

    path: Path
    _read: int = 0
    _number: int = 0
    _identity: tuple[int, int] | None = field(default=None, repr=False)

    def new_lines(self) -> list[Line]:
        """Return the lines since the last call, none where the file is not there yet.

        RunLogError where a line cannot be read, or the file is no longer the one it was.
        """
        with os_errors(RunLogError, f"read {self.path}"):
            try:
                file = self.path.open("rb")
            except FileNotFoundError:
                return []
            with file:
                self._check(file.fileno())
                file.seek(self._read)
                fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        lines = []
        for line in whole.splitlines():
            self._number += 1
            try:
                lines.append(read_line(line))
            except MisfitError as error:
                raise RunLogError(
                    f"{self.path} is damaged: line {self._number} does not fit: {error}"
                ) from error
            except ValueError as error:
                raise RunLogError(
                    f"line {self._number} of {self.path} is not JSON ({error})"
                ) from error
        self._read += len(whole)
        return lines

    def _check(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        identity = status.st_dev, status.st_ino
        if self._identity not in (None, identity) or status.st_size < self._read:
            raise RunLogError(
                f"{self.path} was replaced or cut while it was read: start view again"
            )
        self._identity = identity


@dataclass
class Throttle:
    """Lets a page be made again only once SHARE times what making it took has passed."""

    version: Version = (-1, False)
    _free_at: float = 0.0

    def due(self, version: Version) -> bool:
        """Whether the page is to be made now; the last one, of a finished run, is made at once."""
        return version != self.version and (version[1] or time.monotonic() >= self._free_at)

    @contextmanager
    def making(self, version: Version) -> Iterator[None]:
        """Time the making of a version."""
        began = time.monotonic()
        yield
        self.version = version
        self._free_at = time.monotonic() + (SHARE - 1) * (time.monotonic() - began)


class LiveRun:
    """One run being followed; used by one thread.

    scratch: an empty folder for the pages that are made; nothing is written into the run folder.
    RunLogError where the run cannot be read.
    """

    def __init__(self, folder: RunFolder, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch
        self.states = read_states(folder, [])
        self.by_id = {state.id: state for state in self.states}
        self.by_page = {safe_name(state.id): state for state in self.states}
        self.config = folder.config
        self.turns = 0
        self.done = 0
        self._neighbours = neighbours(self.by_id)
        self._tail = Tail(folder.path / "turns.jsonl")
        self._batches: list[tuple[Phase, int]] = []
        self._pictures: set[str] = set()
        self._diagnoses: dict[str, Diagnosis] | None = None
        self._siblings = siblings(folder)
        self._report: ReportData | None = None
        self._index = Throttle()
        self._figures = Throttle()
        self.follow()

    def follow(self) -> None:
        """Read what is new in the log. RunLogError where a line cannot be read or does not fit."""
        lines = self._tail.new_lines()
        if not lines and self._batches:
            return
        try:
            replay(lines, self.by_id)
        except ValueError as error:
            raise RunLogError(f"{self.folder.path / 'turns.jsonl'} is damaged: {error}") from error
        for line in lines:
            if self._diagnoses is not None:  # what was judged before no longer holds
                self._diagnoses.pop(line.head.question_id, None)
            if line.turn is not None:
                self._batches.append((line.turn.phase, line.turn.batch_size))
                self._pictures |= line.turn.drawn
        self.turns = len(self._batches)
        self.done = sum(not state.active for state in self.states)

    def picture(self, file: str) -> bytes | None:
        """Return the bytes of a picture that a turn names; None where no turn names it, or the file is missing or no PNG."""
        self.follow()
        if file not in self._pictures:
            return None
        try:
            content = read_bounded(picture_path(self.folder.path, file), MAX_PICTURE_BYTES)
        except (OSError, ValueError, RunLogError):
            return None
        return content if content.startswith(SIGNATURE) else None

    @property
    def version(self) -> Version:
        """What a page that is made now tells of."""
        return self.turns, self.finished

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        ended = (self.folder.path / "results.json").is_file()
        return ended and self.done == len(self.states)

    def standing(self) -> dict[str, Any]:
        """Return the progress of the run, small enough to be polled every second.

        version, shown: those of an index that is asked for now, shown being the turns it tells of.
        """
        self.follow()
        index = self.version if self._index.due(self.version) else self._index.version
        return {
            "turns": self.turns,
            "done": self.done,
            "questions": len(self.states),
            "finished": self.finished,
            "version": f"{index[0]}-{index[1]}",
            "shown": index[0],
        }

    def standing_of(self, page: str) -> dict[str, Any] | None:
        """Return the progress of one question, by the name of its page; None where there is none."""
        self.follow()
        if (state := self.by_page.get(page)) is None:
            return None
        version = f"{len(state.turns)}-{state.status}-{self.finished}"
        return {"shown": len(state.turns), "finished": self.finished, "version": version}

    def active(self, page: str) -> bool:
        """Whether the question of a page goes on, or another about its scene."""
        self.follow()
        scene = self.by_page[page].question.scene if page in self.by_page else None
        return any(state.active and state.question.scene == scene for state in self.states)

    def index(self) -> str:
        """Make the index and all it consists of in `scratch`, unless that was just done.

        Returns the version of what lies there, as `standing` has it.
        """
        self.follow()
        if self._index.due(self.version):
            with self._index.making(self.version):
                self._report = self._data()
                write_index(self._report, self.scratch)
        return f"{self._index.version[0]}-{self._index.version[1]}"

    def question(self, page: str) -> tuple[str, str] | None:
        """Return the page of a question and its version; None where there is no such question."""
        standing = self.standing_of(page)
        state = self.by_page.get(page)
        if standing is None or state is None:
            return None
        diagnosis = self._diagnosed().get(state.id)
        report = self._run_data()
        plans = plans_of(report, self.scratch)
        try:
            plan = plans.of(state, diagnosis)
        finally:
            plans.close()
        part = question_part(state, row(state), diagnosis, plan, self.config)
        page_text = page_of_part(report.frame, part, self._neighbours[state.id])
        return page_text, str(standing["version"])

    def _data(self) -> ReportData:
        results = results_of(self.folder, states=self.states)  # as they stand now
        return ReportData(
            folder=self.folder,
            config=self.config,
            states=self.states,
            compute_results=lambda: results,
            batches=self._batches,
            diagnoses=self._diagnosed(),
            siblings=self._siblings,
            finished=self.finished,
        )

    def _run_data(self) -> ReportData:
        """Return what the page of a question needs of its run: the figures may be those of before."""
        if self._report is None or self._figures.due(self.version):
            with self._figures.making(self.version):
                self._report = self._data()
        return self._report

    def _diagnosed(self) -> dict[str, Diagnosis]:
        if self._diagnoses is None:
            self._diagnoses = cached_diagnoses(self.folder, self.states)
        return self._diagnoses
