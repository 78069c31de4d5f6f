"""Terminal output while the program runs: messages, warnings and progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any, TypeVar

from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

PLAIN_LINE_SECONDS = 10.0  # interval between progress lines if the output is not a terminal

Item = TypeVar("Item")


class _Amount(ProgressColumn):
    """Progress column: amount done, speed and estimated time remaining."""

    def render(self, task: Task) -> Text:
        if not task.fields["amount"]:
            return Text()
        if not task.total:
            return Text(format_duration(task.elapsed or 0.0))
        count = decimal if task.fields["in_bytes"] else "{:,}".format
        parts = [f"{count(int(task.completed))} of {count(int(task.total))}"]
        if task.fields["in_bytes"] and task.speed:
            parts.append(f"{decimal(int(task.speed))}/s")
        if task.time_remaining:
            parts.append(f"about {format_duration(task.time_remaining)} left")
        return Text(" · ".join(parts))


def _progress(console: Console | None = None) -> Progress:
    """Return a rich progress display, disabled if there is no console."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        _Amount(),
        console=console,
        transient=True,
        disable=console is None,
    )


class Display:
    """Prints messages and progress: live on a terminal, otherwise as plain lines; if quiet, only warnings."""

    def __init__(self, console: Console, *, quiet: bool = False, verbose: bool = False) -> None:
        self.console = console
        self.quiet = quiet
        self.verbose = verbose
        self.live = console.is_terminal and not quiet
        self.progress = _progress(console if self.live else None)
        self._line: TaskID | None = None
        self._last = time.monotonic()

    def note(self, text: str) -> None:
        if not self.quiet:
            self.console.print(Text(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a line marked as a warning."""
        self.console.print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)

    def detail(self, text: str) -> None:
        if self.verbose:
            self.note(text)

    def update(self, line: str) -> None:
        """Show the current status: in place on a terminal, otherwise one line every PLAIN_LINE_SECONDS."""
        if self.live:
            if self._line is None:
                self._line = self.progress.add_task("", total=None, amount=False)
            self.progress.update(self._line, description=line)
            self.progress.start()  # no-op if already started
        elif time.monotonic() - self._last >= PLAIN_LINE_SECONDS:
            self._last = time.monotonic()
            self.note(line)

    def close(self) -> None:
        self.progress.stop()


class NotebookDisplay(Display):
    """Shows the status in the output of a notebook cell, in place."""

    _output: Any = None

    def update(self, line: str) -> None:
        """Replace the status shown so far."""
        from IPython.display import display

        text = {"text/plain": line}
        if self._output is None:
            self._output = display(text, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._output.update(text, raw=True)


def in_notebook() -> bool:
    """Return True in a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


_displays: list[Display] = []  # stack of active displays, innermost last


@contextmanager
def display_on(
    console: Console, *, quiet: bool = False, verbose: bool = False
) -> Iterator[Display]:
    """Show messages and progress on a console within the block."""
    make = NotebookDisplay if in_notebook() else Display
    display = make(console, quiet=quiet, verbose=verbose)
    _displays.append(display)
    try:
        yield display
    finally:
        display.close()
        _displays.remove(display)


class Stage:
    """A long task and its progress."""

    def __init__(self, progress: Progress, task: TaskID, *, in_bytes: bool) -> None:
        self.in_bytes = in_bytes
        self.done = 0.0
        self._progress, self._task = progress, task

    def describe(self, text: str, *, announce: bool) -> None:
        """Replace the text. With `announce`, also print it as a line if the output is not a terminal."""
        self._progress.update(self._task, description=text)
        if announce and _displays and not _displays[-1].live:
            _displays[-1].note(text)

    def advance(self, count: float = 1) -> None:
        """Add `count` to the amount done."""
        self.set_done(self.done + count)

    def set_done(self, done: float, total: float | None = None) -> None:
        """Set the amount done, and the total if it is known."""
        self.done = done
        if self._task in self._progress.task_ids:  # a library's progress bar may outlive the stage
            self._progress.update(self._task, completed=done, total=total)


@contextmanager
def stage(
    text: str, total: float | None = None, *, in_bytes: bool = False, announce: bool = False
) -> Iterator[Stage]:
    """Show the progress of a long task on a terminal. With `announce`, print a line on other outputs."""
    display = _displays[-1] if _displays else None
    if display is not None and announce and not display.live:
        display.note(text)
    progress = _progress() if display is None else display.progress
    task = progress.add_task(text, total=total, amount=True, in_bytes=in_bytes)
    progress.start()
    try:
        yield Stage(progress, task, in_bytes=in_bytes)
    finally:
        progress.remove_task(task)
        if progress.finished:  # no other stage is shown
            progress.stop()


def track(items: Sequence[Item], text: str) -> Iterator[Item]:
    """Yield the items one by one while showing progress."""
    with stage(text, len(items)) as part:
        for item in items:
            yield item
            part.advance()


def format_duration(seconds: float) -> str:
    """Return a duration as text: "40 s", "12 min", "3 h 05 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 turn", "1,200 turns". Pass `plural` for irregular plurals."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def join_names(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def first_names(names: Sequence[str]) -> str:
    """Return the first three names and the number of the others: "a, b, c and 4 others"."""
    num_others = len(names) - 3
    return (
        join_names(names)
        if num_others <= 0
        else f"{', '.join(names[:3])} and {count_noun(num_others, 'other')}"
    )


def format_bytes(count: float) -> str:
    """Return a number of bytes as text: "3.6 GB"."""
    return decimal(int(count))


def stage_bar_class(target: Stage) -> type[Any]:
    """Return a tqdm class that reports a library's progress to a stage and draws nothing.

    If the library opens several bars, the one with the highest count is shown. For a stage in bytes, only bars
    in bytes count.
    """
    from tqdm import tqdm

    class StageBar(tqdm):  # type: ignore[misc]
        """A tqdm bar that forwards its count to the stage."""

        def __init__(self, *positional: Any, **options: Any) -> None:
            unit = options.get("unit")
            self.counts = unit == "B" or not target.in_bytes
            super().__init__(*positional, **{**options, "file": StringIO(), "disable": False})

        def display(self, *_: Any, **__: Any) -> bool:
            if self.counts and self.n >= target.done:
                target.set_done(self.n, self.total)
            return True

    return StageBar
