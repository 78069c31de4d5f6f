"""Runs read from their folders: scores, frames, dialogues; and the comparison of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render_agent.analysis.diagnosis.model import Diagnosis
from render_agent.analysis.export.result_rows import question_rows, turn_rows
from render_agent.analysis.export.selection import SelectedRun, whole_run
from render_agent.api import frames
from render_agent.api.dialogue import Dialogue, Maps
from render_agent.api.notebook_pictures import page
from render_agent.config import RunConfig, fixed_options
from render_agent.dialogue.state import QuestionState
from render_agent.errors import UsageError
from render_agent.runs.log.folder import RunFolder, find_run
from render_agent.runs.log.reader import compared_beliefs, read_states, results_of
from render_agent.score.comparison import Side, compare_alike, ladder
from render_agent.text.display import counted

if TYPE_CHECKING:
    import pandas

OUTPUT = RunConfig(batch=True).output
"""Where run folders lie unless said otherwise."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """How run b differs from run a; it shows itself in a notebook.

    found: all figures, as `render-agent compare --json` prints them. warnings: why the runs are not
    comparable, where they were compared all the same.

    >>> import render_agent
    >>> options = {"benchmark": "rooms", "engine": "scripted", "limit": 2, "output": "runs", "max_turns": 2}
    >>> a, b = render_agent.run(**options, model="random"), render_agent.run(**options, model="oracle")
    >>> a.compare(b).differences.loc["micro", "b_percent"]
    np.float64(100.0)
    """

    found: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def differences(self) -> pandas.DataFrame:
        """A row a mean, task or type: both scores, b minus a with its 95 % interval and p, in percent."""
        return frames.differences_frame(self.found)

    @property
    def beliefs(self) -> pandas.DataFrame:
        """A row a figure of the last beliefs: both values, b minus a with its 95 % interval and p. Empty without --probe."""
        return frames.compared_beliefs_frame(self.found.get("beliefs", {}))

    @property
    def changed(self) -> pandas.DataFrame:
        """A row a question that is right in one run and wrong in the other."""
        return frames.changed_frame(self.found)

    def __repr__(self) -> str:
        return (
            f"<comparison of b {self.found['b']} with a {self.found['a']}: {self.found['n']} questions,"
            f" {len(self.found['changed'])} changed sides>"
        )

    def _repr_html_(self) -> str:
        return page("comparison.html", comparison=self)


class RunResults:
    """A run as its folder has it at the moment, finished or not; it shows itself in a notebook.

    What was read stays as it is: of a run that goes on, load it again to see more.

    >>> import render_agent
    >>> results = render_agent.run(
    ...     benchmark="rooms", engine="scripted", scene="room00", limit=3, output="runs", max_turns=2
    ... )
    >>> results.questions[["question_id", "status", "score"]].shape
    (3, 3)
    >>> results.turns["seconds_generating"].dtype
    dtype('float64')
    >>> results.dialogue("0").turns[0].views[0].kind
    'top'
    >>> results.compare(results).changed.empty
    True
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._diagnoses: Mapping[str, Diagnosis] = {}
        self._maps = Maps(self.config, lambda: [state.question for state in self._states])

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @cached_property
    def config(self) -> RunConfig:
        """The options of the run."""
        return self.folder.config

    @cached_property
    def finished(self) -> bool:
        """Whether the run came to its end; else its figures are those of the log so far."""
        return self.folder.finished

    @cached_property
    def results(self) -> dict[str, Any]:
        """What `results.json` holds, computed from the log; so it is there before the run has ended too."""
        return results_of(self.folder, states=self._states)

    @property
    def score(self) -> float | None:
        """The official score of the questions that are scored so far, in percent; None without any."""
        score: float | None = self.results["official_over_scored"]["score"]
        return score

    @property
    def stamps(self) -> list[str]:
        """What must be said beside every figure: that it is unfinished or partial, and notes."""
        finished = [] if self.finished else ["UNFINISHED"]
        partial = ["PARTIAL"] if self.results["status"] == "partial" else []
        return [*finished, *partial, *self.results["notes"]]

    @property
    def questions(self) -> pandas.DataFrame:
        """A row a question: the columns that `render-agent export --format csv` writes.

        Results, tokens and seconds, the options of the run; `cause`, `coverage` (share of the room's
        surface, 0 to 1) and what else the diagnosis says are missing values until `diagnosis` was called.
        """
        return frames.frame(list(question_rows(self._whole, self._diagnoses)), frames.QUESTIONS)

    @property
    def turns(self) -> pandas.DataFrame:
        """A row a turn, as `render-agent export --format turns-csv` writes it.

        What was said and done, from where, with how many tokens and seconds, and what the diagnosis says.
        """
        return frames.frame(list(turn_rows(self._whole, self._diagnoses)), frames.TURNS)

    @property
    def types(self) -> pandas.DataFrame:
        """A row a question type: its score with its 95 % interval and the chance levels, in percent."""
        return frames.types_frame(self.results)

    @property
    def pairs(self) -> pandas.DataFrame:
        """A row a question and its counterpart (`--change`): what was answered, and whether that follows."""
        return frames.pairs_frame(self._states)

    @property
    def sightings(self) -> pandas.DataFrame:
        """A row a named object and view: how much of it was seen. Empty until `diagnosis` was called."""
        return frames.sightings_frame(self._diagnoses)

    @property
    def beliefs(self) -> pandas.DataFrame:
        """A row a probe: what its map was worth, what broke first. Empty until `diagnosis` was called, and without --probe."""
        return frames.beliefs_frame(self._states, self._diagnoses)

    @property
    def figures(self) -> pandas.DataFrame:
        """A row a figure of pairs, beliefs, what broke first (after `diagnosis`) and metrics: value, 95 % interval, n."""
        from render_agent.analysis.diagnosis.failure_summary import failure_summary

        broken = failure_summary(self._states, self._diagnoses, self.config.image_size)
        return frames.figures_frame(self.results, broken or {})

    def power(
        self,
        difference: float,
        *,
        power: float = 0.8,
        against: RunResults | str | Path | None = None,
    ) -> pandas.DataFrame:
        """Return how many scenes and questions a difference in points needs to be seen, as `render-agent power` does.

        A row a correlation of two runs from scene to scene, a missing value where it is measured: against, a second run
        of the same questions. UsageError where scenes are too few.
        """
        from render_agent.score.power import plan

        compared = None if against is None else self.compare(against).found
        return frames.power_frame(plan(self.results, difference, power, compared))

    def dialogue(self, question_id: str | int) -> Dialogue:
        """Return one question with its turns. UsageError where the run has no such question."""
        for state in self._states:
            if state.id == str(question_id):
                return Dialogue(self.folder, state, self._maps)
        raise UsageError(f"{self.name} has no question with the id {str(question_id)!r}")

    def dialogues(self) -> list[Dialogue]:
        """Return all questions with their turns, in the order of the run."""
        return [Dialogue(self.folder, state, self._maps) for state in self._states]

    def diagnosis(self, processes: int | None = None) -> Mapping[str, Diagnosis]:
        """Return why each question went as it did, by question id; the frames then tell it too.

        processes: how many work at once, one a core unless given. It is kept in the run folder, so
        that it is computed once.
        """
        from render_agent.analysis.diagnosis.diagnose import diagnose_run

        self._diagnoses = diagnose_run(self.folder, processes, self._states)
        return self._diagnoses

    def report(self, processes: int | None = None) -> Path:
        """Write the report of the run and return its first page; it opens in any browser."""
        from render_agent.analysis.report.build import build

        return build(self.folder, processes=processes)[0]

    def compare(self, other: RunResults | str | Path, *, anyway: bool = False) -> Comparison:
        """Compare another run with this one: this one is a, the other is b.

        other: also a run folder. anyway: compare the questions in common of unlike runs. UsageError
        where they are not comparable, or have no scored question in common.
        """
        theirs = other if isinstance(other, RunResults) else load_run(other)
        a, b = (
            Side(run.name, run.results, {"subset": run.config.subset}) for run in (self, theirs)
        )
        figures = compare_alike(a, b, anyway=anyway, way_out="anyway=True")
        reasons = figures.pop("warnings")
        states = self._states, theirs._states
        if beliefs := compared_beliefs(self.folder, theirs.folder, states):
            figures["beliefs"] = beliefs
        return Comparison(figures, tuple(reasons))

    def ladder(self, *others: RunResults | str | Path) -> pandas.DataFrame:
        """Return a row a mean, task or type and value of `--tools`: the score, and what it gains on the rung below.

        others: runs, or their folders, that differ from this one in `--tools` alone. UsageError where they do not.
        """
        runs = [run if isinstance(run, RunResults) else load_run(run) for run in (self, *others)]
        gains = ladder(
            [Side(run.name, run.results, {}, fixed_options(run.config.to_json())) for run in runs]
        )
        if gains is None:
            raise UsageError(
                "only runs that differ in tools, and in nothing else, are rungs of one ladder"
            )
        return frames.ladder_frame(gains)

    @cached_property
    def _whole(self) -> SelectedRun:
        return whole_run(self.folder, self._states)

    @cached_property
    def _states(self) -> list[QuestionState]:
        return read_states(self.folder)

    def __len__(self) -> int:
        return len(self._states)

    def __repr__(self) -> str:
        score = "no score" if self.score is None else f"{self.score:.1f} %"
        stamps = "".join(f", {stamp}" for stamp in self.stamps if stamp.isupper())
        failed = self.results["counts"]["failed"]
        failures = f", {failed} failed" if failed else ""
        return f"<run {self.name}: {counted(len(self), 'question')}{failures}, {score}{stamps}>"

    def _repr_html_(self) -> str:
        return page("results.html", run=self)


def load_run(which: str | Path = "recent", output: str | Path = OUTPUT) -> RunResults:
    """Return a run from its folder, finished or not.

    which: a run folder, a name in `output`, or the newest there. RunLogError where there is none.

    >>> import render_agent
    >>> results = render_agent.run(
    ...     benchmark="rooms", engine="scripted", limit=1, output="runs", max_turns=2
    ... )
    >>> render_agent.load_run(results.name, "runs").results == results.results
    True
    """
    return RunResults(find_run(Path(output), str(which)))
