"""How far a run is: counts of its questions and turns, its score so far, and the time that is left."""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

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

FEWEST_TURNS = 12
"""So many turns are timed before the time left is told."""

BATCHES = 8
"""The batches to come are as large as the largest of so many turns of late, where so many questions are left."""

FADING, FEW_QUESTIONS = 2 / 3, 8
"""What an earlier turn tells of a later one by turns between them; of so few questions a turn counts half."""

BATCH_SAVING, TURN_GROWTH = 1 / 4, 0.02
"""A turn's cost falls with this power of its batch, and grows by this share with each turn before it."""

SHORT_COLUMNS, WIDE_COLUMNS = 80, 120
"""The short line has at most so many columns; a terminal of so many has a second line."""

BAR_CELLS = 5


class Mark(NamedTuple):
    """A turn that was taken: when, and the seconds, the work and the batches of all of its kind up to it."""

    when: float = 0.0
    seconds: float = 0.0
    work: float = 0.0
    batches: float = 0.0


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
        self._all: list[Mark] = []
        self._later: list[Mark] = []
        """What all turns came to, and those that are no question's first, in which scans are read."""
        self._batches: deque[int] = deque(maxlen=BATCHES)
        self._first_batch = 0
        """How many turns the first batch has, in which kernels are compiled."""
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
        self.tokens += turn.tokens.reply
        self.pictures += len(turn.views)
        self.passed[turn.number] += 1
        self.reached[turn.number] -= 1
        if state.active:
            self.reached[turn.number + 1] += 1
        else:
            self._retired(state)
        self.timed(turn.number, turn.batch_size)
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
        later = not self.reached[0] and len(self._later) >= FEWEST_TURNS
        marks, skipped = (self._later, 0) if later else (self._all, self._first_batch)
        if len(marks) - skipped < FEWEST_TURNS:
            return None
        pace = self._pace(marks, skipped)
        short, long = (pace * self.work_to_come(factor) for factor in HAZARD_FACTORS)
        left, seconds = math.sqrt(short * long), self._last
        share = seconds / (seconds + left)
        least = KNOWN_SHARE if long <= WIDEST_RANGE * short else SURE_SHARE
        known = (
            seconds >= KNOWN_SECONDS and share >= least and marks[-1].batches >= 2 + (skipped > 0)
        )
        return left if known or self.seconds_left is not None else None

    def work_to_come(self, factor: float = 1.0) -> float:
        """Return the work that is expected still, in first turns that are alone in their batch.

        factor: how many times more often than expected questions end in the turns that none came to yet.
        """
        hazards = self._hazards(factor)
        waiting = [float(self.reached[number]) for number in range(self.max_turns)]
        largest, work = max(self._batches, default=1), 0.0
        while (count := sum(waiting)) > 0.01:
            batch = min(largest, count)
            work += sum(_work(n, batch) * waiting[n] for n in range(self.max_turns) if waiting[n])
            waiting = [0.0, *(w * (1 - h) for w, h in zip(waiting, hazards[:-1], strict=False))]
        return work

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

    def _pace(self, marks: Sequence[Mark], skipped: int) -> float:
        """Return the seconds that turns took of late for their work, without the first so many where there are more."""
        first = bisect_right(marks, RECENT_SHARE * self._last, key=lambda mark: mark.when)
        first = min(max(first, skipped), len(marks) - 1)
        # the first turn of a batch has the time of all of them
        while (
            first > skipped
            and marks[first].seconds - marks[first - 1].seconds < BURST_GAP_SHARE * self._last
            and marks[first].when > (RECENT_SHARE - LONGEST_BURST_SHARE) * self._last
        ):
            first -= 1
        before = marks[first - 1] if first else Mark()
        return (marks[-1].seconds - before.seconds) / (marks[-1].work - before.work)

    def timed(self, number: int, batch: int) -> None:
        """Note the time at which a turn of this number was taken, and what is left by that."""
        self.taken += 1
        self.batch = batch
        self._batches.append(batch)
        self._first_batch = self._first_batch or batch
        now = self.elapsed
        for marks in (self._all, self._later) if number else (self._all,):
            last = marks[-1] if marks else Mark()
            marks.append(
                Mark(
                    now,
                    last.seconds + now - self._last,
                    last.work + _work(number, batch),
                    last.batches + 1 / max(1, batch),
                )
            )
        self._last = now
        self.seconds_left = self._estimated()

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
