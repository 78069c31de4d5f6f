"""Records episodes in ordinary run folders, so that they can be reported and diagnosed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from render_agent.api.engines import python_record
from render_agent.dialogue.question import Question
from render_agent.dialogue.turn import LogLine
from render_agent.runs.build import Parts
from render_agent.runs.inputs import QUESTIONS
from render_agent.runs.log.writer import RunLog, TurnLog
from render_agent.runs.read import RunData
from render_agent.runs.runner import record
from render_agent.util.file_digests import sha256


class Recording(TurnLog):
    """One run folder, written by several episodes. Thread-safe."""

    def __init__(self, log: RunLog) -> None:
        self.log = log
        self.images = log.images
        self.asked: dict[str, Question] = {}
        self.num_open = 0
        self._lock = Lock()

    @classmethod
    def create(
        cls,
        parts: Parts,
        questions: Sequence[Question],
        folder: Path,
        engine: Mapping[str, Any],
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> Recording:
        """Create a run folder."""
        config = replace(parts.config, output=str(folder))
        run_record = record(replace(parts, config=config), questions, engine)
        kind = "batched" if config.batch else "single"
        return cls(RunLog.create(folder, kind, {**run_record, **extra}))

    def append(self, line: LogLine) -> None:
        """Append a turn and write it to disk."""
        with self._lock:
            self.log.append(line)
            self.log.sync()

    def sync(self) -> None:
        """Do nothing, because `append` has written everything."""

    def close(self) -> None:
        """Keep only the questions that were asked, write the results, and unlock the folder, which is not resumed."""
        self.log.write_questions(self.asked.values())
        record = RunData(self.log.path).record
        digests = {**record["sha256"], QUESTIONS: sha256(self.log.path / QUESTIONS)}
        self.log.write_record({**record, "sha256": digests})
        self.log.write_results(RunData(self.log.path).results)
        self.log.close()


class Recorder:
    """Opens run folders for episodes. A question that is asked again starts a new folder. Thread-safe."""

    def __init__(self, parts: Parts, questions: Sequence[Question], folder: Path) -> None:
        self.parts = parts
        self.questions = questions
        self.folder = folder.absolute()
        self.paths: list[Path] = []
        self._current: Recording | None = None
        self._open: list[Recording] = []
        self._lock = Lock()
        self._process = os.getpid()

    def open(self, question: Question) -> Recording:
        """Return the folder that records the next episode about a question."""
        with self._lock:
            if self._current is None or question.id in self._current.asked:
                earlier, self._current = self._current, self._create()
                if earlier is not None:
                    self._close_unused(earlier)
            self._current.asked[question.id] = question
            self._current.num_open += 1
            return self._current

    def release(self, recording: TurnLog) -> None:
        """Mark an episode as over."""
        with self._lock:
            assert isinstance(recording, Recording), "the recorder opened it"
            recording.num_open -= 1
            if recording is not self._current:
                self._close_unused(recording)

    def close(self) -> None:
        """Finish all folders. A fork does not, because they belong to its parent."""
        if os.getpid() != self._process:
            return
        with self._lock:
            for recording in self._open:
                recording.close()
            self._open, self._current = [], None

    def _create(self) -> Recording:
        engine = python_record(self.parts.model_name)
        recording = Recording.create(self.parts, self.questions, self.folder, engine)
        recording.log.write_questions(self.questions)
        self.paths.append(recording.log.path)
        self._open.append(recording)
        return recording

    def _close_unused(self, recording: Recording) -> None:
        if not recording.num_open and recording in self._open:
            self._open.remove(recording)
            recording.close()
