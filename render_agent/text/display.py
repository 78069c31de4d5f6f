"""What a person sees while the program works: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any, TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

PLAIN_LINE_SECONDS = 10.0
"""Seconds between two plain lines that say how far something is."""

LIVE_LINE_SECONDS = 0.1
"""Seconds between two changes of a live line."""

SHORT_SECONDS = 1.0
"""What takes less than this is not told in plain lines."""


KNOWN_SHARE = 0.03
"""The time left is told once this share is done: the first part says little of the pace."""

Item = TypeVar("Item")


class Display:
    """Shows a person what goes on, in plain lines, one every few seconds: for pipes and log files."""

    width = 0
    """Columns that a live line has; 0 where there is none."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        self.console = console
        self.verbose = verbose
        self._last = time.monotonic()

    def note(self, words: str) -> None:
        """Something began: print the line."""
        self.console.print(Text(words), soft_wrap=True)

    def warn(self, words: str) -> None:
        """Something went wrong, and the work goes on: print the line, marked."""
        self.console.print(Text(f"warning: {words}", style="yellow"), soft_wrap=True)

    def detail(self, words: str) -> None:
        """Something small happened: print the line, if every turn is wanted."""
        if self.verbose:
            self.console.print(Text(words), soft_wrap=True)

    def update(self, line: str) -> None:
        """The work stands here now: print the line, but not more often than every few seconds."""
        if time.monotonic() - self._last >= PLAIN_LINE_SECONDS:
            self._last = time.monotonic()
            self.console.print(Text(line), soft_wrap=True)

    def clear(self) -> None:
        """The last line told with `update` is out of date; what is printed stays."""


class Quiet(Display):
    """Warnings only."""

    def note(self, words: str) -> None:
        """Print nothing."""

    def detail(self, words: str) -> None:
        """Print nothing."""

    def update(self, line: str) -> None:
        """Print nothing."""


class Terminal(Display):
    """One line that stays at the bottom of a terminal until it is cleared."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        super().__init__(console, verbose=verbose)
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    @property
    def width(self) -> int:  # type: ignore[override]
        """The terminal's columns."""
        return self.console.width

    def update(self, line: str) -> None:
        """Show the line at once."""
        self._live.start()  # does nothing where it has started
        self._live.update(Text(line, style="bold", no_wrap=True, overflow="ellipsis"))

    def clear(self) -> None:
        """Take the line away."""
        self._live.update(Text(""))
        self._live.stop()


_shown: list[Display] = []
"""The displays in use, the one that shows what goes on last."""


@contextmanager
def shown_on(console: Console, *, quiet: bool = False, verbose: bool = False) -> Iterator[Display]:
    """Show what goes on, stages included, on a console until the end of the block."""
    kind = Quiet if quiet else Terminal if console.is_terminal else Display
    display = kind(console, verbose=verbose)
    _shown.append(display)
    try:
        yield display
    finally:
        display.clear()
        _shown.remove(display)


class Stage:
    """One piece of work that takes long: what it is, and how much of it is done.

    total: how much there is in all, None where that is not known. in_bytes: whether it is counted in bytes.
    """

    def __init__(self, words: str, total: float | None, *, in_bytes: bool = False) -> None:
        self.words = words
        self.total = total
        self.done = 0.0
        self.in_bytes = in_bytes
        self._began = self._last = time.monotonic()

    def advance(self, count: float = 1) -> None:
        """So much more is done."""
        self.at(self.done + count)

    def at(self, done: float, total: float | None = None) -> None:
        """So much is done, of so much in all where that has become known."""
        self.done = done
        self.total = total or self.total
        now = time.monotonic()
        if _shown and now - self._last >= LIVE_LINE_SECONDS and now - self._began >= SHORT_SECONDS:
            self._last = now
            _shown[-1].update(self.line)

    @property
    def line(self) -> str:
        """Where it stands, in one line."""
        seconds = time.monotonic() - self._began
        if not self.total:
            return f"{self.words} · {duration(seconds)}"
        parts = [self.words, f"{self._count(self.done)} of {self._count(self.total)}"]
        if KNOWN_SHARE * self.total <= self.done < self.total and seconds >= SHORT_SECONDS:
            pace = self.done / seconds
            parts += [f"{self._count(pace)}/s"] if self.in_bytes else []
            parts.append(f"about {duration(max(0.0, self.total - self.done) / pace)} left")
        return " · ".join(parts)

    def _count(self, amount: float) -> str:
        return size(amount) if self.in_bytes else f"{amount:,.0f}"


@contextmanager
def stage(
    words: str, total: float | None = None, *, in_bytes: bool = False, announced: bool = False
) -> Iterator[Stage]:
    """Show a piece of work that takes long, where anything is shown; see `Stage`.

    announced: whether it is told as it begins, in plain lines too, since it never is short.
    """
    part = Stage(words, total, in_bytes=in_bytes)
    display = _shown[-1] if _shown else None
    if display is not None and announced:
        display.update(words) if display.width else display.note(words)
    try:
        yield part
    finally:
        if display is not None:
            display.clear()


def tell(words: str) -> None:
    """Show what goes on just now, where anything is shown: in the live line, or in a plain one now and then."""
    if _shown:
        _shown[-1].update(words)


def tracked(items: Sequence[Item], words: str) -> Iterator[Item]:
    """Give items one by one, and show how many of them are done."""
    with stage(words, len(items)) as part:
        for item in items:
            yield item
            part.advance()


def duration(seconds: float) -> str:
    """Return a time in words: "40 s", "12 min", "3 h 05 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: "1 turn", "1,200 turns"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def size(count: float) -> str:
    """Return a number of bytes in words: "3.6 GB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def bar_class(shown: Stage) -> type[Any]:
    """Return a class of tqdm's bars that tell a stage how far a library is, and draw nothing.

    Of several bars the one that is furthest counts. Bytes are told as bytes.
    """
    from tqdm import tqdm

    class StageBar(tqdm):  # type: ignore[misc]
        """A bar that hands on its count."""

        def __init__(self, *positional: Any, **named: Any) -> None:
            unit = named.get("unit")
            self.counts = unit == "B" or not shown.in_bytes
            super().__init__(*positional, **{**named, "file": StringIO(), "disable": False})

        def display(self, *_: Any, **__: Any) -> bool:
            """Tell the stage."""
            if self.counts and self.n >= shown.done:
                shown.at(self.n, self.total)
            return True

    return StageBar
