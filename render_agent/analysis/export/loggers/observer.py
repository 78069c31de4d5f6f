"""Runs told to loggers, their figures by turn: as they go on, by a thread of its own, and afterwards, from their folders."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from render_agent import registry
from render_agent.analysis.export.loggers.base import (
    MAX_PICTURES,
    FinishedRun,
    LoggedRun,
    RunLogger,
    picture_of,
    table_row,
)
from render_agent.dialogue.state import Phase, QuestionState, Status, Turn
from render_agent.errors import RenderAgentError
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.lines import replay
from render_agent.runs.log.reader import NO_SCENES, read_states, results_of
from render_agent.runs.log.results import counted_states, scored_answers
from render_agent.runs.phase_controller import Observer, Silent
from render_agent.runs.runner import Run
from render_agent.score.intervals import estimates_of
from render_agent.score.means import MACRO, tally
from render_agent.system.threads import start
from render_agent.text.reasons import LONGEST_REASON, shortened
from render_agent.text.redact import without_keys

POINTS = 200
"""At most about so many times a run's figures are told, at turns that its options fix: before and after a break the
same."""


class RunFigures:
    """Counts what happens in a run, and says when its figures are due: all come from the log, none from a clock."""

    def __init__(self, states: Sequence[QuestionState]) -> None:
        self.states = states
        most = sum(state.max_turns for state in states)
        self.stride = -(-most // POINTS)
        self.totals = Counter[str]()
        for state in states:
            for turn in state.turns:
                self._count(turn)
        self._before = Counter(self.totals)

    @property
    def step(self) -> int:
        """The turns that the run has taken."""
        return self.totals["turns"]

    def took(self, turn: Turn) -> dict[str, float] | None:
        """Count a turn; return the figures where they are due."""
        self._count(turn)
        return None if self.step % self.stride else self.now()

    def now(self) -> dict[str, float]:
        """Return the figures as they are; speeds are those since the last time."""
        since, self._before = self.totals - self._before, Counter(self.totals)
        turns = max(1, since["turns"])
        status = Counter(state.status for state in self.states)
        figures = {
            "questions/done": len(self.states) - status[Status.ACTIVE],
            "questions/failed": status[Status.FAILED],
            "tokens/in": self.totals["in"],
            "tokens/out": self.totals["out"],
            "tokens/from_cache": self.totals["cached"],
            "speed/seconds_generating_a_turn": since["generating"] / turns / 1e6,
            "speed/seconds_rendering_a_turn": since["rendering"] / turns / 1e6,
            "speed/batch_size": since["batch"] / turns,
        }
        if since["generating"]:
            figures["speed/tokens_per_second"] = 1e6 * since["out"] / since["generating"]
        return figures | self._score()

    def _count(self, turn: Turn) -> None:
        self.totals += Counter(
            {
                "turns": 1,
                "in": turn.tokens.prompt,
                "out": turn.tokens.reply,
                "cached": turn.tokens.cached,
                "generating": round(1e6 * turn.seconds.generating),
                "rendering": round(1e6 * turn.seconds.rendering),
                "batch": turn.batch_size,
            }
        )

    def _score(self) -> dict[str, float]:
        """Return the official mean of what is scored so far with its 95 % interval, in percent."""
        answers = tally(scored_answers(counted_states(self.states)))
        if not len(answers.sums):
            return {}
        low, high = (100 * float(end) for end in estimates_of(answers)[MACRO].score_interval)
        score = {"score": 100 * float(answers.means[MACRO])}
        return score if np.isnan(low) else score | {"score_low": low, "score_high": high}


def summary(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of `results.json` by name, what is not known left out."""
    score = results["official_over_scored"]["score"]
    low, high = results["intervals"].get("official") or (None, None)
    figures = {
        "final/score": score,
        **{f"final/{name}": results[name] for name in ("official", "micro", "without_order")},
        "final/score_low": low,
        "final/score_high": high,
        **{f"final/types/{name}": entry.get("score") for name, entry in results["types"].items()},
        **{f"final/questions/{name}": count for name, count in results["counts"].items()},
    }
    return {name: float(value) for name, value in figures.items() if value is not None}


logger = logging.getLogger(__name__)

CLOSE_SECONDS = 180.0
"""So long a run waits at its end until its loggers have sent what they have."""

Deed = Callable[[RunLogger], None]


class LoggerThread:
    """Has a logger do what is asked, in a thread of its own: neither its faults nor its waits reach a run.

    say: is told, once, why the logger does no more.
    """

    def __init__(self, name: str, run: LoggedRun, say: Callable[[str], None]) -> None:
        self.name = name
        self._say = say
        self.failed = False
        self._opened_at = 0
        self._deeds: SimpleQueue[Deed | None] = SimpleQueue()
        self._thread = Thread(target=self._work, args=(run,), name=f"log to {name}", daemon=True)
        start(self._thread)

    def do(self, deed: Deed) -> None:
        """Have it done after what was asked before."""
        self._deeds.put(deed)

    def finish(self, run: FinishedRun, *, unless_known: bool) -> None:
        """Have it take what is there at the end. unless_known: not where it had this step when it was opened."""

        def finish(to: RunLogger) -> None:
            if unless_known and self._opened_at >= run.step:
                self._say(f"{self.name} has all of this run already")
            else:
                to.finish(run)

        self.do(finish)

    def close(self) -> None:
        """Close the logger and wait for it, but not for ever."""
        self._deeds.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self.failed = True
            self._say(f"{self.name} still sends after {CLOSE_SECONDS:.0f} s and is left alone")

    def _work(self, run: LoggedRun) -> None:
        try:
            opened: RunLogger = registry.make("logger", self.name, run)
            self._opened_at = opened.step
            try:
                while (deed := self._deeds.get()) is not None:
                    deed(opened)
            finally:
                opened.close()
        # a tool that exits ends its thread alone, and nobody would know
        except BaseException as error:
            self.failed = True
            logger.warning("logging to %s stopped", self.name, exc_info=error)
            reason = without_keys(" ".join(str(error).split()) or type(error).__name__)
            self._say(
                f"nothing more is logged to {self.name}: {shortened(reason, LONGEST_REASON)}; the run goes on"
            )


class LoggingObserver:
    """Hands what happens on to another observer, and the figures of the run to its loggers."""

    def __init__(self, states: Sequence[QuestionState], loggers: Sequence[LoggerThread], to: Observer) -> None:  # fmt: skip
        self.figures = RunFigures(states)
        self.loggers = loggers
        self.to = to

    def began(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        """A phase, or a batched turn, begins with these questions."""
        self.to.began(phase, states)

    def took(self, state: QuestionState, turn: Turn) -> None:
        """A question took a turn."""
        self.to.took(state, turn)
        if figures := self.figures.took(turn):
            self.tell(figures)

    def failed(self, state: QuestionState) -> None:
        """A question failed."""
        self.to.failed(state)

    def tell(self, figures: dict[str, float]) -> None:
        """Have every logger take the figures of this step, where it has none of it yet."""
        step = self.figures.step
        for each in self.loggers:
            each.do(lambda to: to.figures(figures, step) if step > to.step else None)


@contextmanager
def logged(
    run: Run,
    observer: Observer,
    say: Callable[[str], None],
    note: Callable[[str], None] = logger.info,
) -> Iterator[Observer]:
    """Give the observer of a run that is also told to the loggers of `--log-to`; at its end they get the rest.

    say: is told what went wrong with a logger, which stops no run. note: what is done at the end, and where it is seen.
    """
    names = run.config.log_to
    if not names:
        yield observer
        return
    loggers = [LoggerThread(name, LoggedRun(run.log.folder), say) for name in names]
    try:
        telling = LoggingObserver(run.states, loggers, observer)
        yield telling
        note(f"handing the results and the report to {', '.join(names)}")
        _finish(telling, run.log.folder, run.states, say)
    finally:
        for each in loggers:
            each.close()
    for each in loggers:
        if not each.failed:
            note(logged_line(each.name, run.log.folder))


def logged_line(name: str, folder: RunFolder) -> str:
    """Return the sentence that a run was logged, and by what it is seen."""
    seen = getattr(registry.load("logger", name), "seen_by", "").format(runs=folder.path.parent)
    return f"{folder.name} was logged to {name}{seen and f'; {seen}'}"


def log_finished(folder: RunFolder, name: str, say: Callable[[str], None]) -> bool:
    """Tell a run that is there to a logger, turn by turn, and return whether it took it.

    Steps that it has are not told again. RunLogError where the run's log is damaged. say: is told what went wrong,
    and where there was nothing to tell.
    """
    states, lines = read_states(folder), folder.turns()
    thread = LoggerThread(name, LoggedRun(folder, anew=True), say)
    try:
        fresh = [QuestionState(s.question, NO_SCENES, s.max_turns, blind=s.blind) for s in states]
        by_id = {state.id: state for state in fresh}
        telling = LoggingObserver(fresh, [thread], Silent())
        for line in lines:
            replay([line], by_id)
            if line.turn is not None:
                telling.took(by_id[line.head.question_id], line.turn)
        _finish(telling, folder, fresh, say, unless_known=True)
    finally:
        thread.close()
    return not thread.failed


def _finish(
    telling: LoggingObserver,
    folder: RunFolder,
    states: Sequence[QuestionState],
    say: Callable[[str], None],
    *,
    unless_known: bool = False,
) -> None:
    """Tell the last figures and what is there at the end. unless_known: not to a logger that had this step before."""
    if telling.figures.step % telling.figures.stride:
        telling.tell(telling.figures.now())
    pictures = {state.id: picture_of(state, folder.path) for state in states[:MAX_PICTURES]}
    views = folder.path / "views"
    finished = FinishedRun(
        telling.figures.step,
        summary(results_of(folder, states=states)),
        [table_row(state) for state in states],
        {name: file for name, file in pictures.items() if file is not None},
        _report(folder, say),
        views if views.is_dir() else None,
    )
    for each in telling.loggers:
        each.finish(finished, unless_known=unless_known)


def _report(folder: RunFolder, say: Callable[[str], None]) -> Path | None:
    """Return the folder of a run's report, written where it is older than the results; None where it cannot be."""
    from render_agent.analysis.report.build import REPORT, build

    pages, results = folder.path / REPORT / "index.html", folder.path / "results.json"
    try:
        if not pages.is_file() or pages.stat().st_mtime < results.stat().st_mtime:
            build(folder, diagnose=False)
    except (RenderAgentError, OSError) as error:
        say(f"the report is not logged: {error}")
        return None
    return pages.parent
