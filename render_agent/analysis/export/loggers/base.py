"""What a logger is, and what it is told of a run: figures by turn, the table of questions, the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from render_agent.config.paths import public_options
from render_agent.dialogue.state import QuestionState
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.results import row

PROJECT = "render_agent"
"""The project or experiment that runs lie in, unless the tool's own variable of the environment names another."""

MAX_PICTURES = 200
"""So many questions have their picture in the table: a tool is sent no gigabytes."""

COLUMNS = (
    "question_id", "type", "scene", "question", "answer", "truth", "score", "status", "turns",
)  # fmt: skip
"""The columns of the table of questions; the picture follows."""


@dataclass(frozen=True)
class LoggedRun:
    """The run that a logger is opened for. anew: whether all of it is told at once, from its folder."""

    folder: RunFolder
    anew: bool = False

    @property
    def name(self) -> str:
        """What the run is called in a tool: its folder's name."""
        return self.folder.name

    @property
    def id(self) -> str:
        """The same whenever the run is told again: its name, and a part of its fingerprint."""
        return f"{self.name}-{self.folder.record['fingerprint'][:8]}"

    @property
    def options(self) -> dict[str, Any]:
        """The options of the run without keys and places, and the model that answered."""
        options = public_options(self.folder.config.to_json())
        return options | {"model": str(self.folder.record["engine"]["model"])}


@dataclass(frozen=True)
class FinishedRun:
    """What a logger is told at the end.

    step: turns of the run. summary: its figures by name. rows: the table, a row of COLUMNS a question.
    pictures: the last view of a question that is no map, by its id. report: the folder of pages, in which are the
    pictures that they show, and views: the run's own, kept where there is no report; None where there is none.
    """

    step: int
    summary: Mapping[str, float]
    rows: Sequence[Sequence[Any]]
    pictures: Mapping[str, Path] = field(default_factory=dict)
    report: Path | None = None
    views: Path | None = None

    @property
    def artefacts(self) -> dict[str, Path]:
        """The folders to keep beside the figures, by the name that pages know them by."""
        if self.report is not None:
            return {"report": self.report}
        return {} if self.views is None else {"views": self.views}


class RunLogger(Protocol):
    """A run in one tool. All calls come from one thread; what one raises is said once, and ends the logger only."""

    step: int
    """The last step that the tool has of this run; those up to it are not told again."""

    def figures(self, figures: Mapping[str, float], step: int) -> None:
        """Take the figures of the run as they are after so many turns."""
        ...

    def finish(self, run: FinishedRun) -> None:
        """Take what is there at the end."""
        ...

    def close(self) -> None:
        """Write what is waiting; the run may go on later."""
        ...


def table_row(state: QuestionState) -> list[Any]:
    """Return the row of a question in the table."""
    known = row(state) | {"question": state.question.text}
    return [known[name] for name in COLUMNS]


def picture_of(state: QuestionState, folder: Path) -> Path | None:
    """Return the last view of a question that is no map, where its file is there."""
    views = [view for view in state.views if view.kind != "top"]
    file = folder / views[-1].file if views else None
    return file if file is not None and file.is_file() else None
