"""Reads runs from their folders: scores, data frames, dialogues and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from render_agent.api.images import View, page
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import STATUS_LABELS, QuestionState, Status
from render_agent.dialogue.turn import Turn
from render_agent.errors import RenderAgentError, RenderError, UsageError
from render_agent.extras import require
from render_agent.options import RunConfig
from render_agent.render.subprocess_renderer import make_isolated_renderer
from render_agent.render.viewer import Viewer
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.result_rows import (
    QUESTION_COLUMNS,
    TURN_COLUMNS,
    question_rows,
    turn_rows,
)
from render_agent.report.sentences.verdicts import difference_lines
from render_agent.runs.log.columns import Column, columns_of
from render_agent.runs.log.lock import status_of_unfinished
from render_agent.runs.read import RunData, find_run
from render_agent.scans.camera import Camera
from render_agent.score.intervals import method_words
from render_agent.score.summary import headline, lenient_line, row_names
from render_agent.score.tables import COUNT_LABELS, describe_mean_cost, overall_lines, type_lines
from render_agent.tasks.question_types import type_label
from render_agent.util.display import count_noun

if TYPE_CHECKING:
    import pandas

OUTPUT = RunConfig(batch=True).output  # default folder for run folders

DTYPES = {"text": "string", "int": "Int64", "float": "float64", "bool": "boolean"}  # pandas types


class TypeRow(Struct, frozen=True):
    """Score of a question type with its 95 % interval, and its baselines, in percent."""

    type: str
    n: int
    score_percent: float | None
    low_percent: float | None
    high_percent: float | None
    random_percent: float | None
    frequency_percent: float | None


class Dialogue:
    """One question of a run with all its turns. Notebooks display it.

    >>> import render_agent
    >>> room = render_agent.bundled_rooms()["room00"]
    >>> dialogue = render_agent.ask(
    ...     room, "Which is larger?", options=["the sofa", "the table"], engine="scripted", output="runs"
    ... )
    >>> dialogue.answer, str(dialogue.status)
    ('A', 'answered')
    >>> dialogue.turns[0].action.view
    'around'
    >>> dialogue.map()
    <view (top), 640 x 480 pixels>
    """

    def __init__(self, run: RunResults, state: QuestionState) -> None:
        self.run = run
        self.state = state

    @property
    def folder(self) -> RunData:
        """The run, as read from its folder."""
        return self.run.folder

    @property
    def question(self) -> Question:
        """The question: text, options, ground truth and scene."""
        return self.state.question

    @property
    def status(self) -> Status:
        """`answered`, `exhausted` (out of turns), `active`, `failed` or `missing`."""
        return self.state.status

    @property
    def answer(self) -> str | None:
        """The final answer in canonical form: a letter, a number or a text."""
        return self.state.answer

    @property
    def score(self) -> float | None:
        """The score of the answer as given, 0 to 1; None if there is no ground truth or the question is unfinished."""
        return self.folder.rows[self.state.id].score

    @property
    def error(self) -> str | None:
        """The error that stopped the question, if any."""
        return self.state.error

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns from the log: reply, action, feedback, outcome, poses, tokens, evidence."""
        return tuple(self.state.turns)

    @property
    def views(self) -> list[View]:
        """The images shown to the model, without duplicates; `turn.views` refers to them by number."""
        path = self.folder.path
        return [
            View(view.kind, view.camera, path / view.file, number=view.number)
            for view in self.state.views
        ]

    def map(self, size: tuple[int, int] | None = None) -> View:
        """Return the map of the scene with the numbered camera path.

        Args:
            size: Width and height in pixels; by default, those of the run.

        Returns:
            The map view.

        Raises:
            SceneError: The scan is not available.
            RenderError: The model was shown no images.
        """
        config, state = self.run.config, self.state
        path = [turn.camera_before for turn in state.turns]
        if self.run.folder.parts.passive:
            cameras = [view.camera for view in state.views if isinstance(view.camera, Camera)]
            path = cameras or path[:1]
        if state.blind or not path:
            raise RenderError(f"question {state.id} has no map: the model was shown no images")
        scene = self.folder.scenes.get(state.question)
        renderer = make_isolated_renderer(config.renderer)
        viewer = Viewer(renderer, size or config.image_size, config.field_of_view)
        try:
            return View.from_rendered(viewer.top(scene, path[-1], path[:-1]))
        finally:
            viewer.close()

    def __len__(self) -> int:
        return len(self.state.turns)

    def __repr__(self) -> str:
        answer = "no answer" if self.answer is None else f"answer {self.answer!r}"
        turns = count_noun(len(self), "turn")
        return f"<dialogue of question {self.question.id}: {self.status}, {answer}, {turns}>"

    def _repr_html_(self) -> str:
        try:
            top = self.map().thumbnail() if self.turns else None
        except RenderAgentError:  # for example, the scan is on another machine or the run was blind
            top = None
        status = STATUS_LABELS[self.status]
        return page("dialogue.html", dialogue=self, map=top, status=status, type_label=type_label)


class Figures(dict[str, Any]):
    """Named results; the representation shows the first two levels."""

    def __repr__(self) -> str:
        return pformat(dict(self), depth=2, width=110, sort_dicts=False)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The paired comparison of run b with run a. Notebooks display it.

    Attributes:
        found: All results, as printed by `render-agent compare --json`; scores are in percent.
        warnings: Reasons why the runs are not comparable, if compared with `anyway=True`.

    >>> import render_agent
    >>> options = {"benchmark": "rooms", "engine": "scripted", "limit": 2, "output": "runs", "max_turns": 2}
    >>> a, b = render_agent.run(**options, model="random"), render_agent.run(**options, model="oracle")
    >>> a.compare(b).found["differences"]["micro"]["b"]
    100.0
    """

    found: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<comparison of b {self.found['b']} with a {self.found['a']}: {self.found['n']} questions,"
            f" {len(self.found['changed'])} correct in one run only>"
        )

    def _repr_html_(self) -> str:
        labels = row_names(self.found["differences"])
        lines = difference_lines(self.found)
        return page(
            "comparison.html",
            comparison=self,
            labels=labels,
            lines=lines,
            interval_words=method_words(),
        )


class RunResults:
    """A run, finished or not. Notebooks display it. Load a running run again to update it.

    >>> import render_agent
    >>> results = render_agent.run(
    ...     benchmark="rooms", engine="scripted", scene="room00", limit=3, output="runs", max_turns=2
    ... )
    >>> results.questions[["question_id", "status", "score"]].shape
    (3, 3)
    >>> results.turns["seconds_generating"].dtype
    dtype('float64')
    >>> results.dialogue("0").views[0].kind
    'top'
    """

    def __init__(self, folder: RunData) -> None:
        self.folder = folder
        self._diagnoses: Mapping[str, Diagnosis] = {}

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def config(self) -> RunConfig:
        """The options of the run."""
        return self.folder.config

    @property
    def finished(self) -> bool:
        """True if the run has ended; questions that failed or were left are counted in `results`."""
        return self.folder.finished

    @property
    def results(self) -> dict[str, Any]:
        """The contents of `results.json`, computed from the log, even for an unfinished run."""
        return self.folder.results

    @property
    def score(self) -> float | None:
        """VSI-Bench score over scored questions, in percent; None if there are none."""
        return headline(self.results).score

    @property
    def stamps(self) -> list[str]:
        """RUNNING, INTERRUPTED or PARTIAL, and the caveats that must accompany the scores."""
        labels = [] if self.finished else [status_of_unfinished(self.path).upper()]
        partial = ["PARTIAL"] if self.results["status"] == "partial" else []
        return [*labels, *partial, *self.results["notes"]]

    @property
    def questions(self) -> pandas.DataFrame:
        """One row per question, with the columns of `render-agent export --format csv`.

        The diagnosis columns (`cause`, `coverage`, …) contain missing values until `diagnosis` is called.
        """
        return data_frame(question_rows(self.folder, self._diagnoses), QUESTION_COLUMNS)

    @property
    def turns(self) -> pandas.DataFrame:
        """One row per turn, with the columns of `render-agent export --format turns-csv`."""
        return data_frame(turn_rows(self.folder, self._diagnoses), TURN_COLUMNS)

    @property
    def types(self) -> pandas.DataFrame:
        """One row per question type: score with 95 % interval, and baselines, in percent."""
        results = self.results
        chance = results["chance"]["random"], results["chance"]["frequency"]
        rows = [
            TypeRow(
                name,
                entry["n"],
                entry["score"],
                *(results["intervals"].get(name) or (None, None)),
                *(level.get(name) for level in chance),
            )
            for name, entry in results["types"].items()
        ]
        return data_frame(map(structs.asdict, rows), columns_of(TypeRow)).set_index("type")

    def dialogue(self, question_id: str | int) -> Dialogue:
        """Return one question with its turns. Raises UsageError if the run has no such question."""
        for state in self.folder.dialogues:
            if state.id == str(question_id):
                return Dialogue(self, state)
        raise UsageError(f"{self.name} has no question with the id {str(question_id)!r}")

    def dialogues(self) -> list[Dialogue]:
        """Return all questions with their turns, in the order of the run."""
        return [Dialogue(self, state) for state in self.folder.dialogues]

    def diagnosis(self, processes: int | None = None) -> Mapping[str, Diagnosis]:
        """Diagnose all questions. From then on, the data frames include the diagnoses.

        Args:
            processes: Number of processes; by default, one per core.

        Returns:
            The diagnoses by question id.
        """
        from render_agent.report.diagnosis.diagnose import diagnose_run

        self._diagnoses = diagnose_run(self.folder, processes)
        return self._diagnoses

    def report(self, processes: int | None = None) -> Path:
        """Write the HTML report of the run and return its index page.

        Args:
            processes: Number of processes; by default, one per core.
        """
        from render_agent.report.pages.build import build_report

        return build_report(self.folder, processes=processes)

    def compare(self, other: RunResults | str | Path, *, anyway: bool = False) -> Comparison:
        """Compare another run (b) with this one (a).

        Args:
            other: A run or its folder.
            anyway: Compare the common questions even if the runs are not comparable.

        Returns:
            The comparison.

        Raises:
            UsageError: The runs are not comparable, or have no scored questions in common.
        """
        theirs = other if isinstance(other, RunResults) else load_run(other)
        (figures,) = compare_runs(
            [self.folder, theirs.folder], anyway=anyway, anyway_option="anyway=True"
        )
        reasons = figures.pop("warnings")
        return Comparison(Figures(figures), tuple(reasons))

    def __len__(self) -> int:
        return len(self.folder.dialogues)

    def __repr__(self) -> str:
        score = (
            "no score"
            if self.score is None
            else f"{headline(self.results).name} {self.score:.1f} %"
        )
        stamps = "".join(f", {stamp}" for stamp in self.stamps if stamp.isupper())
        num_failed = self.results["counts"]["failed"]
        failures = f", {num_failed} failed" if num_failed else ""
        return f"<run {self.name}: {count_noun(len(self), 'question')}{failures}, {score}{stamps}>"

    def _repr_html_(self) -> str:
        results = self.results
        return page(
            "results.html",
            run=self,
            types=type_lines(results),
            means=overall_lines(results),
            lenient=lenient_line(results),
            labels=COUNT_LABELS,
            work=describe_mean_cost(results),
        )


def data_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]) -> pandas.DataFrame:
    """Return rows as a data frame with typed columns, even if there are none. Raises SetupError without pandas."""
    require("a data frame", "pandas")
    import pandas

    kinds = {column.name: DTYPES[column.kind] for column in columns}
    return pandas.DataFrame(list(rows), columns=list(kinds), dtype=object).astype(kinds)


def load_run(which: str | Path = "recent", output: str | Path = OUTPUT) -> RunResults:
    """Load a run from its folder, finished or not.

    Args:
        which: A run folder, the name of a run in `output`, or `recent` for the newest run there.
        output: Folder of the run folders.

    Returns:
        The run.

    Raises:
        RunLogError: The run does not exist.

    >>> import render_agent
    >>> results = render_agent.run(
    ...     benchmark="rooms", engine="scripted", limit=1, output="runs", max_turns=2
    ... )
    >>> render_agent.load_run(results.name, "runs").results == results.results
    True
    """
    return RunResults(find_run(Path(output), str(which)))
