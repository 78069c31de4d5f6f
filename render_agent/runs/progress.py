"""How far a run is: counts of its questions and turns, its score so far, and the time that is left."""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np

from render_agent.dialogue.candidates import short_summary
from render_agent.dialogue.state import Phase, QuestionState, Status, Turn
from render_agent.runs.log.results import counted, scored_answers
from render_agent.score.intervals import estimates_of
from render_agent.score.means import MACRO, tally
from render_agent.text.display import Display, duration

SCORE_SECONDS = 5.0
"""The score so far is computed anew no sooner than this many seconds after the last time."""

KNOWN_SHARE, KNOWN_SECONDS = 0.03, 20.0
"""The time left is told once a run has taken this share of its time and these seconds."""

WIDEST_RANGE, SURE_SHARE = 2.25, 0.45
"""And once the longest time that is likely is at most so many times the shortest, or so much of it is over."""

RECENT_SHARE = 0.5
"""The pace is that of the last half of the time."""

BURST_GAP_SHARE, LONGEST_BURST_SHARE = 0.01, 0.1
"""Turns of one batch end within so small a share of the time of each other, all within the larger one."""

USUAL_HAZARD, HAZARD_FACTORS = 0.2, (2.5, 0.25)
"""How often a question usually ends in a turn, and by what factors a guess of that is likely to be wrong."""

FADING, FEW_QUESTIONS = 2 / 3, 8
"""What an earlier turn tells of a later one by turns between them; of so few questions a turn counts half."""

BATCH_SAVING, TURN_GROWTH = 1 / 3, 0.02
"""A turn's cost falls with this root of its batch, and grows by this share with each turn before it."""

SHORT_COLUMNS, WIDE_COLUMNS = 80, 120
"""The short line has at most so many columns; a terminal of so many has a second line."""

BAR_CELLS = 5


class Progress:
    """Counts what happens and hands it to a display.

    max_batched_turns, max_turns: of the run; they tell which turn of how many a phase is in.
    """

    def __init__(
        self,
        states: Sequence[QuestionState],
        display: Display,
        *,
        max_batched_turns: int,
        max_turns: int,
    ) -> None:
        self.states = list(states)
        self.display = display
        self.max_batched_turns = max_batched_turns
        self.max_turns = max_turns
        self.phase: Phase = "batched"
        self.turn = 0
        self.batch = 0
        self.counts = Counter(state.status for state in self.states)
        self.taken = self.tokens = self.pictures = 0
        self.reached = Counter(len(state.turns) for state in self.states if state.active)
        """How many active questions have taken so many turns."""
        self.ended: Counter[int] = Counter()
        self.passed: Counter[int] = Counter()
        """How many questions ended in their turn of this number, and how many took it at all."""
        self._began: float | None = None
        self._last = 0.0
        """When the last turn was taken, in seconds since the first began."""
        self._first = np.zeros(2)
        """Seconds and work of first turns, in which scans are read and kernels compiled."""
        self._later: list[tuple[float, float, float]] = []
        """Of each later turn: when it was taken, and the seconds and the work of all of them up to it."""
        self._batches = [0.0, 0.0]
        """How many batches of first and of later turns there were."""
        self.seconds_left: float | None = None
        """The time that the turns to come will take; None where that is not known well."""
        retired = [state for state in self.states if not state.active]
        self._scored = scored_answers(counted(retired))
        self._score = ""
        self._score_due = 0.0

    def began(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        """A phase, or a batched turn, begins with these questions."""
        if self._began is None:
            self._began = self.clock()
        self.phase = phase
        self.turn = min(len(state.turns) for state in states)
        self.display.note(f"{self.place}: {_many(len(states), 'question')}")

    def took(self, state: QuestionState, turn: Turn) -> None:
        """A question took a turn."""
        self.taken += 1
        self.tokens += turn.tokens.reply
        self.pictures += len(turn.views)
        self.batch = turn.batch_size
        self.passed[turn.number] += 1
        self.reached[turn.number] -= 1
        if state.active:
            self.reached[turn.number + 1] += 1
        else:
            self._retired(state)
        self._timed(turn.number)
        self.seconds_left = self._estimated()
        self.display.detail(turn_summary(state, turn))
        self._show()

    def failed(self, state: QuestionState) -> None:
        """A question failed."""
        self.reached[len(state.turns)] -= 1
        self._retired(state)
        self.display.warn(f"question {state.id} failed: {state.error}")

    @property
    def place(self) -> str:
        """The phase, in words."""
        if self.phase == "batched":
            return f"batched turn {self.turn + 1} of {self.max_batched_turns}"
        return "finishing, each question at its own pace"

    @property
    def line(self) -> str:
        """Where the run stands, in one line, all of it."""
        left = self.seconds_left
        words = [] if left is None else [f"about {duration(left)} left"]
        return " · ".join([*self._statuses, *self._figures.values(), *words])

    @property
    def short_line(self) -> str:
        """Where the run stands, in 80 columns; of its figures those of least use give way."""
        count, failed = len(self.states), self.counts[Status.FAILED]
        done = count - self.counts[Status.ACTIVE]
        filled = BAR_CELLS * done // max(1, count)
        bar = "█" * filled + "░" * (BAR_CELLS - filled)
        parts = {"questions": f"{bar} {done}/{count}", "turns": f"{self.taken} turns"}
        if failed:
            parts["failed"] = f"{failed} failed"
        parts |= self._figures
        if (left := self.seconds_left) is not None:
            parts["left"] = f"{short_duration(left)} left"
        for name in ("views", "tokens", "turns", "memory"):
            if len("  ".join(parts.values())) > SHORT_COLUMNS:
                parts.pop(name, None)
        return "  ".join(parts.values())

    @property
    def questions_a_minute(self) -> float:
        """Questions retired a minute since this process took its first turn."""
        return 60 * self.ended.total() / max(self.elapsed, 1e-6)

    @staticmethod
    def clock() -> float:
        """Return the seconds of the clock by which the time left is told."""
        return time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the first turn of this process began; 0 before."""
        return 0.0 if self._began is None else self.clock() - self._began

    def _estimated(self) -> float | None:
        """Return the time left: the geometric mean of the shortest and the longest that are likely.

        What was told once is told to the end.
        """
        if not self.counts[Status.ACTIVE]:
            return None
        first = float(np.divide(*self._first)) if self._first[1] else 0.0
        pace = first, self._pace if self._later else first
        few, many = map(self.work_to_come, HAZARD_FACTORS)
        short, long = np.dot(pace, few), np.dot(pace, many)
        left, seconds = float(np.sqrt(short * long)), self._last
        # where most end at once, the first turns alone tell the pace
        batches = self._batches[many[1] > many[0] / 10]
        known = batches >= 2 and long <= WIDEST_RANGE * short
        share = seconds / (seconds + left)
        if self.seconds_left is None and (
            seconds < KNOWN_SECONDS or share < (KNOWN_SHARE if known else SURE_SHARE)
        ):
            return None
        return left

    def work_to_come(self, factor: float = 1.0) -> tuple[float, float]:
        """Return the work of first turns and of later ones that are expected still, in turns of a batch of one.

        factor: how many times more often than expected questions end in the turns that none came to yet.
        """
        hazards = self._hazards(factor)
        waiting = [float(self.reached[number]) for number in range(self.max_turns)]
        first = later = 0.0
        while (count := sum(waiting)) > 0.01:
            batch = max(1.0, min(self.batch, count))
            first += _work(0, batch) * waiting[0]
            later += sum(
                _work(n, batch) * waiting[n] for n in range(1, self.max_turns) if waiting[n]
            )
            waiting = [0.0, *(w * (1 - h) for w, h in zip(waiting, hazards[:-1], strict=False))]
        return first, later

    def _hazards(self, factor: float) -> list[float]:
        """Return how often a question ends in its turn of each number.

        It is as often as those did that came to it (a life table, as of Kaplan and Meier 1958); in turns that none
        came to yet, as often as in the known ones, of which the later count more, and as is usual.
        """
        told = weights = 0.0
        for number in sorted(self.passed):
            weight = self.passed[number] / (self.passed[number] + FEW_QUESTIONS)
            told = told * FADING + weight * self.ended[number] / self.passed[number]
            weights = weights * FADING + weight
        unknown = min(0.9, factor * (told + USUAL_HAZARD) / (weights + 1))
        return [
            (self.ended[number] + unknown / 3) / (self.passed[number] + 1 / 3)
            for number in range(self.max_turns)
        ]

    @property
    def _pace(self) -> float:
        """Seconds that later turns took of late for their work."""
        first, end = bisect_right(self._later, (RECENT_SHARE * self._last,)), len(self._later) - 1
        first = min(first, end)
        # the first turn of a batch has the time of all of them
        while (
            first
            and self._later[first][1] - self._later[first - 1][1] < BURST_GAP_SHARE * self._last
            and self._later[first][0] > (RECENT_SHARE - LONGEST_BURST_SHARE) * self._last
        ):
            first -= 1
        _, *before = self._later[first - 1] if first else (0.0, 0.0, 0.0)
        return float(np.divide(*np.subtract(self._later[end][1:], before)))

    def _timed(self, number: int) -> None:
        """Note when a turn was taken, and what work it was."""
        now, work = self.elapsed, _work(number, self.batch)
        seconds, self._last = now - self._last, now
        self._batches[number > 0] += 1 / max(1, self.batch)
        if number == 0:
            self._first += seconds, work
            return
        _, *before = self._later[-1] if self._later else (0.0, 0.0, 0.0)
        self._later.append((now, before[0] + seconds, before[1] + work))

    @property
    def _statuses(self) -> list[str]:
        counts = self.counts
        return [
            self.place,
            f"active {counts[Status.ACTIVE]}",
            f"answered {counts[Status.ANSWERED]}",
            f"exhausted {counts[Status.EXHAUSTED]}",
            f"failed {counts[Status.FAILED]}",
            f"batch {self.batch}",
            f"{self.questions_a_minute:.1f} questions/min",
        ]

    @property
    def _figures(self) -> dict[str, str]:
        """The score so far, the speed and the GPU's memory in use, as far as they are known."""
        seconds = max(self.elapsed, 1.0)
        figures = {
            "score": self._score_so_far(),
            "tokens": f"{self.tokens / seconds:.0f} tok/s" if self.tokens else "",
            "views": f"{self.pictures / seconds:.1f} img/s" if self.pictures else "",
            "memory": _gpu_memory(),
        }
        return {name: words for name, words in figures.items() if words}

    def _score_so_far(self) -> str:
        """Return the official mean of what is answered, and half the width of its interval."""
        if (now := time.monotonic()) < self._score_due:
            return self._score
        self._score_due = now + SCORE_SECONDS
        counted = tally(self._scored)
        if len(counted.sums):
            low, high = estimates_of(counted)[MACRO].score_interval
            spread = "" if np.isnan(low) else f"±{50 * float(high - low):.0f}"
            self._score = f"score {100 * counted.means[MACRO]:.0f}{spread}"
        return self._score

    def _show(self) -> None:
        if not (width := getattr(self.display, "width", 0)):
            self.display.update(self.line)
        elif width < WIDE_COLUMNS:
            self.display.update(self.short_line)
        else:
            self.display.update(f"{self.short_line}\n{' · '.join(self._statuses)}")

    def _retired(self, state: QuestionState) -> None:
        self.ended[max(0, len(state.turns) - 1)] += 1
        self.counts[Status.ACTIVE] -= 1
        self.counts[state.status] += 1
        self._scored += scored_answers(counted([state]))


def _work(number: int, batch: float) -> float:
    """Return what the turn of a number costs in a batch, against the first turn in a batch of one."""
    return (1 + TURN_GROWTH * number) * float(max(1.0, batch) ** -BATCH_SAVING)


def turn_summary(state: QuestionState, turn: Turn) -> str:
    """Return what one question did in a turn, in one line."""
    how = f" ({short_summary(turn.evidence)})" if turn.evidence else ""
    return f"{state.id} turn {turn.number}: {turn.feedback}{how}"


def short_duration(seconds: float) -> str:
    """Return a time in as few letters as can be read: "40 s", "12 min", "3h05"."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h{minutes:02d}" if hours else duration(seconds)


def _gpu_memory() -> str:
    """Return how much of the first GPU's memory is in use; nothing where no library uses a GPU here."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    free, there = torch.cuda.mem_get_info()
    return f"{(there - free) / 1e9:.0f} GB"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
