"""How far a run is: counts of its questions and turns, its score so far, and the time that is left."""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Sequence
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

FEWEST_TURNS, FEWEST_BATCHES = 12, 2
"""And once so many turns, of so many batches, are timed."""

SHARP_RANGE, WIDEST_RANGE = 2.25, 6.0
"""The longest time that is likely is at most so many times the shortest where one number is told, or a range at all."""

RECENT_SHARE, PACE_FACTOR = 0.5, 1.2
"""The pace is that of the last half of the time, and is likely to change by so much."""

LEAST_SHARE = 0.1
"""The first batch, in which kernels are compiled, is left out; the pace is known once the others took this share."""

USUAL_HAZARD, HAZARD_FACTOR = 0.2, 2.5
"""How often a question usually ends in a turn, and by what factor a guess of that is likely to be wrong."""

FEW_QUESTIONS = 8
"""What a turn tells of others counts half where so few questions took it."""

BATCHES = 8
"""The batches to come are as large as the largest of so many turns of late, where so many questions are left."""

BATCH_SAVING, TURN_GROWTH = 1 / 4, 0.02
"""A turn's cost falls with this power of its batch, and grows by this share with each turn before it."""

SHORT_COLUMNS, WIDE_COLUMNS = 80, 120
"""The short line has at most so many columns; a terminal of so many has a second line."""

BAR_CELLS = 5


class Mark(NamedTuple):
    """A turn that was taken: when, and the work and the batches of all turns up to it."""

    when: float = 0.0
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
        self._marks = [Mark()]
        self._batches: deque[int] = deque(maxlen=BATCHES)
        self._first_batch = 0
        """How many turns the first batch has."""
        self.seconds_range: tuple[float, float] | None = None
        """The shortest and the longest time that the turns to come are likely to take; None where too little is known."""
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
        words = [f"about {left} left"] if (left := self._left(duration)) else []
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
        if left := self._left(short_duration):
            parts["left"] = f"{left} left"
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

    @property
    def seconds_left(self) -> float | None:
        """The time left: the geometric mean of the shortest and the longest that are likely, None where none is told."""
        return None if self.seconds_range is None else math.sqrt(math.prod(self.seconds_range))

    def _left(self, words_of: Callable[[float], str]) -> str:
        """Return the time left in words: one number where both ends are near it, else both; empty where none is told."""
        if self.seconds_range is None:
            return ""
        short, long = self.seconds_range
        if long > SHARP_RANGE * short:
            return f"{words_of(short)} to {words_of(long)}"
        return words_of(math.sqrt(short * long))

    def _estimated(self) -> tuple[float, float] | None:
        """Return the shortest and the longest time left that are likely; None where too little is known."""
        last = self._marks[-1]
        if (
            not self.counts[Status.ACTIVE]
            or len(self._marks) <= FEWEST_TURNS
            or last.batches < FEWEST_BATCHES
        ):
            return None
        if (pace := self._pace()) is None:
            return None
        short = pace * self.work_to_come(1) / PACE_FACTOR
        long = pace * self.work_to_come(-1) * PACE_FACTOR
        least = max(KNOWN_SECONDS, KNOWN_SHARE * (last.when + math.sqrt(short * long)))
        known = last.when >= least and long <= WIDEST_RANGE * short
        return (short, long) if known or self.seconds_range else None  # told once, told to the end

    def work_to_come(self, spread: float = 0.0) -> float:
        """Return the work that is expected still, in first turns that are alone in their batch.

        spread: how far hazards are from what is expected of them, 1 as far up and -1 as far down as is likely.
        """
        hazards = self._hazards(spread)
        waiting = [float(self.reached[number]) for number in range(self.max_turns)]
        largest, work = max(self._batches, default=1), 0.0
        while (count := sum(waiting)) > 0.01:
            batch = min(largest, count)
            work += sum(_work(n, batch) * waiting[n] for n in range(self.max_turns) if waiting[n])
            waiting = [0.0, *(w * (1 - h) for w, h in zip(waiting, hazards[:-1], strict=False))]
        return work

    def _hazards(self, spread: float) -> list[float]:
        """Return how often a question ends in its turn of each number.

        It is as often as those did that came to it (a life table, as of Kaplan and Meier 1958); in turns that few
        came to yet, as often as in the known ones and as is usual. Who ends in the first turn says little of who goes on.
        """
        ended, weights = USUAL_HAZARD, 1.0
        for number in self.passed.keys() - {0}:
            weight = self.passed[number] / (self.passed[number] + FEW_QUESTIONS)
            ended += weight * self.ended[number] / self.passed[number]
            weights += weight
        unknown = min(0.9, ended / weights * HAZARD_FACTOR**spread)
        odds = math.exp(spread / math.sqrt(1 + self.ended.total()))  # the error of so many counts
        hazards = []
        for number in range(self.max_turns):
            passed = self.passed[number]
            known = min(1.0, self.ended[number] / max(1, passed))
            known *= odds / (1 + known * (odds - 1))
            hazards.append((passed * known + unknown) / (passed + 1))
        return hazards

    def _pace(self) -> float | None:
        """Return the seconds that turns took of late for their work, None where too few were after the first batch."""
        last = self._marks[-1]
        recent = bisect_right(self._marks, RECENT_SHARE * last.when, key=lambda mark: mark.when) - 1
        first = self._marks[max(recent, min(self._first_batch, len(self._marks) - 1))]
        if last.when - first.when < LEAST_SHARE * last.when or last.work == first.work:
            return None
        return (last.when - first.when) / (last.work - first.work)

    def timed(self, number: int, batch: int) -> None:
        """Note that a turn of this number was taken now, and what is left by that."""
        self.taken += 1
        self.batch = batch
        self._batches.append(batch)
        self._first_batch = self._first_batch or batch
        _, work, batches = self._marks[-1]
        self._marks.append(
            Mark(self.elapsed, work + _work(number, batch), batches + 1 / max(1, batch))
        )
        self.seconds_range = self._estimated()

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
