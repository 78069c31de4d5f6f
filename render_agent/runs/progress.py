"""What a person sees while a run goes on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from render_agent.dialogue.candidates import short_summary
from render_agent.dialogue.state import Phase, QuestionState, Status, Turn

PLAIN_LINE_SECONDS = 10.0
"""Seconds between two plain lines."""


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
        self.taken = 0
        self.retired_turns = [len(state.turns) for state in self.states if not state.active]
        self.pending_turns = sum(len(state.turns) for state in self.states if state.active)
        self._retired_before = len(self.retired_turns)
        self._since = time.monotonic()

    def began(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        """A phase, or a batched turn, begins with these questions."""
        self.phase = phase
        self.turn = min(len(state.turns) for state in states)
        self.display.note(f"{self.place}: {_many(len(states), 'question')}")

    def took(self, state: QuestionState, turn: Turn) -> None:
        """A question took a turn."""
        self.taken += 1
        self.batch = turn.batch_size
        self._count(state, Status.ACTIVE)
        self.display.turn(state, turn)
        self.display.update(self.line)

    def failed(self, state: QuestionState) -> None:
        """A question failed."""
        self._count(state, Status.ACTIVE)
        self.display.warn(f"question {state.id} failed: {state.error}")

    @property
    def place(self) -> str:
        """The phase, in words."""
        if self.phase == "batched":
            return f"batched turn {self.turn + 1} of {self.max_batched_turns}"
        return "finishing, each question at its own pace"

    @property
    def line(self) -> str:
        """Where the run stands, in one line."""
        counts = self.counts
        parts = [
            self.place,
            f"active {counts[Status.ACTIVE]}",
            f"answered {counts[Status.ANSWERED]}",
            f"exhausted {counts[Status.EXHAUSTED]}",
            f"failed {counts[Status.FAILED]}",
            f"batch {self.batch}",
            f"{self.questions_a_minute:.1f} questions/min",
        ]
        if (left := self.seconds_left) is not None:
            parts.append(f"about {duration(left)} left")
        return " · ".join(parts)

    @property
    def questions_a_minute(self) -> float:
        """Questions retired a minute since this process began."""
        retired = len(self.retired_turns) - self._retired_before
        return 60 * retired / max(self.elapsed, 1e-6)

    @property
    def elapsed(self) -> float:
        """Seconds since this process began."""
        return time.monotonic() - self._since

    @property
    def seconds_left(self) -> float | None:
        """The time that the turns to come will take at the pace so far; None before the first turn.

        A question is expected to take as many turns as those retired did on average, all its turns
        where none has retired yet.
        """
        if not self.taken:
            return None
        done = self.retired_turns
        usual = sum(done) / len(done) if done else self.max_turns
        active = self.counts[Status.ACTIVE]
        to_come = max(active * usual - self.pending_turns, active)
        return self.elapsed / self.taken * to_come

    def _count(self, state: QuestionState, before: Status) -> None:
        now = state.status
        if now is before:
            self.pending_turns += 1
            return
        self.counts[before] -= 1
        self.counts[now] += 1
        self.pending_turns -= max(0, len(state.turns) - 1)
        self.retired_turns.append(len(state.turns))


class Display(Protocol):
    """Shows progress to a person."""

    def note(self, words: str) -> None:
        """Something began."""
        ...

    def warn(self, words: str) -> None:
        """Something went wrong; the run goes on."""
        ...

    def turn(self, state: QuestionState, turn: Turn) -> None:
        """A turn was taken."""
        ...

    def update(self, line: str) -> None:
        """The run stands here now."""
        ...


class Plain:
    """Plain lines, one every few seconds: for pipes and log files."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        self.console = console
        self.verbose = verbose
        self._last = time.monotonic()

    def note(self, words: str) -> None:
        """Print the line."""
        self.console.print(Text(words), soft_wrap=True)

    def warn(self, words: str) -> None:
        """Print the line, marked."""
        self.console.print(Text(f"warning: {words}", style="yellow"), soft_wrap=True)

    def turn(self, state: QuestionState, turn: Turn) -> None:
        """Print what one question did, if every turn is wanted."""
        if self.verbose:
            how = f" ({short_summary(turn.evidence)})" if turn.evidence else ""
            words = f"{state.id} turn {turn.number}: {turn.feedback}{how}"
            self.console.print(Text(words), soft_wrap=True)

    def update(self, line: str) -> None:
        """Print the line, but not more often than every few seconds."""
        if time.monotonic() - self._last >= PLAIN_LINE_SECONDS:
            self._last = time.monotonic()
            self.console.print(Text(line), soft_wrap=True)


class Quiet(Plain):
    """Warnings only."""

    def note(self, words: str) -> None:
        """Print nothing."""

    def turn(self, state: QuestionState, turn: Turn) -> None:
        """Print nothing."""

    def update(self, line: str) -> None:
        """Print nothing."""


class Terminal(Plain):
    """One line that stays at the bottom of a terminal; use it as a context."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        super().__init__(console, verbose=verbose)
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Terminal:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def update(self, line: str) -> None:
        """Show the line at once."""
        self._live.update(Text(line, style="bold"))


def duration(seconds: float) -> str:
    """Return a time in words: "40 s", "12 min", "3 h 05 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
