"""The selection of an export: which questions of which runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from render_agent.config import RunConfig
from render_agent.dialogue.state import QuestionState
from render_agent.errors import UsageError
from render_agent.runs.log.row import Row, row_of
from render_agent.runs.read import RunData
from render_agent.util.display import tracked


@dataclass(frozen=True, slots=True)
class QuestionFilter:
    """What an export keeps: ids and types of questions, any where empty, and a least score (0 to 1).

    The score is that in the room as it was shown: in a mirrored one left and right have changed places.
    """

    ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    least_score: float | None = None

    def takes(self, row: Row) -> bool:
        """Return whether a question is asked for."""
        score = row.score_as_shown
        if self.least_score is not None and (score is None or score < self.least_score):
            return False
        return (not self.ids or row.question_id in self.ids) and (
            not self.types or row.type in self.types
        )


@dataclass(frozen=True)
class SelectedRun:
    """A run and those of its questions that are asked for, each with its row of the results.

    name: the folder's; of several with the same one, the later have ~2, ~3 … behind it.
    """

    name: str
    folder: RunData
    config: RunConfig
    states: list[QuestionState] = field(repr=False)
    rows: list[Row] = field(repr=False)

    @property
    def model(self) -> str:
        """The model, as the run recorded it."""
        return str(self.folder.record["engine"]["model"])

    @property
    def entries(self) -> Iterator[tuple[QuestionState, Row]]:
        """Its questions with their rows, one by one, while it is shown how many of them are exported."""
        return zip(tracked(self.states, f"exporting {self.name}"), self.rows, strict=True)


def select_runs(folders: Sequence[RunData], keep: QuestionFilter) -> list[SelectedRun]:
    """Return the chosen questions of every run, in the order of the run.

    UsageError where an id or a type is in none of the runs. RunLogError where a log is damaged.
    """
    everything = [
        whole_run(folder, folder.states, name)
        for name, folder in zip(_names(folders), folders, strict=True)
    ]
    questions = [state.question for run in everything for state in run.states]
    for wanted, known, kind in (
        (keep.ids, {question.id for question in questions}, "question with the id"),
        (keep.types, {question.type for question in questions}, "question of the type"),
    ):
        if unknown := [name for name in wanted if name not in known]:
            names = ", ".join(run.name for run in everything)
            raise UsageError(f"there is no {kind} {unknown[0]!r} in {names}")
    return [_chosen(run, keep) for run in everything]


def whole_run(
    folder: RunData, states: Sequence[QuestionState], name: str | None = None
) -> SelectedRun:
    """Return a run with all its questions; name: the folder's unless given."""
    config = folder.config
    rows = [row_of(state, stress=config.picture_stress) for state in states]
    return SelectedRun(name or folder.name, folder, config, list(states), rows)


def _names(folders: Sequence[RunData]) -> list[str]:
    """Return a name for every run, each once: runs of other outputs may have begun in the same second."""
    taken: Counter[str] = Counter()
    names = []
    for folder in folders:
        taken[folder.name] += 1
        more = f"~{taken[folder.name]}" if taken[folder.name] > 1 else ""
        names.append(folder.name + more)
    return names


def _chosen(run: SelectedRun, keep: QuestionFilter) -> SelectedRun:
    pairs = [pair for pair in zip(run.states, run.rows, strict=True) if keep.takes(pair[1])]
    return replace(run, states=[state for state, _ in pairs], rows=[row for _, row in pairs])
