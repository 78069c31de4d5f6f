"""How far a run is: counts of its questions and turns, its score so far, and the time that is left."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from render_agent.dialogue.candidates import short_summary
from render_agent.dialogue.state import Phase, QuestionState, Status, Turn
from render_agent.engines.base import longest_reply
from render_agent.runs.forecast import SHARP_RANGE, Dialogue, Forecast
from render_agent.runs.log.results import counted_states, scored_answers
from render_agent.runs.runner import Run, finish_together
from render_agent.score.intervals import estimates_of
from render_agent.score.means import MACRO, tally
from render_agent.text.display import Display, counted, duration

SCORE_SECONDS = 5.0
"""The score so far is computed anew no sooner than this many seconds after the last time."""

SHORT_COLUMNS, WIDE_COLUMNS = 80, 120
"""The short line has at most so many columns; a terminal of so many has a second line."""

TOLD_SECONDS, TOLD_SHARE = 1.0, 0.005
"""The time left is predicted anew no sooner than after so many seconds, and this share of those that the run took."""

BAR_CELLS = 5


class Progress:
    """Counts what happens and hands it to a display.

    max_batched_turns, max_turns: of the run; they tell which turn of how many a phase is in. longest: tokens of a reply
    at the most. earlier: how many turns each question took of an earlier run of the same model.
    """

    def __init__(
        self,
        states: Sequence[QuestionState],
        display: Display,
        *,
        max_batched_turns: int,
        max_turns: int,
        finish_together: int | None = None,
        longest: float = math.inf,
        earlier: Sequence[Dialogue] = (),
    ) -> None:
        self.states = list(states)
        self.display = display
        self.max_batched_turns = max_batched_turns
        self.max_turns = max_turns
        self.phase: Phase = "batched"
        self.turn = 0
        self.batch = 0
        self.counts = Counter(state.status for state in self.states)
        self.taken = self.retired = self.tokens = self.pictures = 0
        played = sorted(
            self.states, key=lambda state: state.question.scene
        )  # as the controller does
        self.places = {state.id: place for place, state in enumerate(played)}
        dialogues = [
            Dialogue(s.question.type, [turn.tokens.reply for turn in s.turns], s.active)
            for s in played
        ]
        self.forecast = Forecast(
            max_turns, dialogues, earlier, max_batched_turns, finish_together, longest
        )
        self.told: tuple[float, float] | None = None
        """The shortest and the longest time left that are likely, as the line has them."""
        self._told_until = 0.0
        self._began: float | None = None
        retired = [state for state in self.states if not state.active]
        self._scored = scored_answers(counted_states(retired))
        self._score = ""
        self._score_due = 0.0

    @classmethod
    def of(cls, run: Run, display: Display) -> Self:
        """Return the progress of a run."""
        return cls(
            run.states,
            display,
            max_batched_turns=run.max_batched_turns,
            max_turns=run.config.max_turns,
            finish_together=finish_together(run.config),
            longest=longest_reply(run.config.max_new_tokens, run.config.thinking_budget),
            earlier=run.earlier_dialogues(),
        )

    def began(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        """A phase, or a batched turn, begins with these questions."""
        if self._began is None:
            self._began = self.clock()
        if phase != self.phase:
            self.forecast.began_phase()
        self.phase = phase
        self.turn = min(len(state.turns) for state in states)
        self.display.note(f"{self.place}: {counted(len(states), 'question')}")

    def took(self, state: QuestionState, turn: Turn) -> None:
        """A question took a turn."""
        self.tokens += turn.tokens.reply
        self.pictures += len(turn.views)
        self.taken += 1
        self.batch = turn.batch_size
        ended = not state.active
        self.forecast.took(
            self.places[state.id], turn.batch_size, self.elapsed, turn.tokens.reply, ended=ended
        )
        if ended:
            self._retired(state)
        self.display.detail(turn_summary(state, turn))
        self._show()

    def failed(self, state: QuestionState) -> None:
        """A question failed."""
        self.forecast.failed(self.places[state.id])
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
        return 60 * self.retired / max(self.elapsed, 1e-6)

    @staticmethod
    def clock() -> float:
        """Return the seconds of the clock by which the time left is told."""
        return time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the first turn of this process began; 0 before."""
        return 0.0 if self._began is None else self.clock() - self._began

    def _left(self, words_of: Callable[[float], str]) -> str:
        """Return the time left in words: one number where both ends are near it, else both; empty where none is told."""
        if (now := self.elapsed) >= self._told_until:
            self.told = self.forecast.range
            self._told_until = now + max(TOLD_SECONDS, TOLD_SHARE * now)
        if self.told is None:
            return ""
        short, long = self.told
        if long > SHARP_RANGE * short:
            return f"{words_of(short)} to {words_of(long)}"
        return words_of(math.sqrt(short * long))

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
        answers = tally(self._scored)
        if len(answers.sums):
            low, high = estimates_of(answers)[MACRO].score_interval
            spread = "" if np.isnan(low) else f"±{50 * float(high - low):.0f}"
            self._score = f"score {100 * answers.means[MACRO]:.0f}{spread}"
        return self._score

    def _show(self) -> None:
        if not (width := getattr(self.display, "width", 0)):
            self.display.update(self.line)
        elif width < WIDE_COLUMNS:
            self.display.update(self.short_line)
        else:
            self.display.update(f"{self.short_line}\n{' · '.join(self._statuses)}")

    def _retired(self, state: QuestionState) -> None:
        self.retired += 1
        self.counts[Status.ACTIVE] -= 1
        self.counts[state.status] += 1
        self._scored += scored_answers(counted_states([state]))


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
