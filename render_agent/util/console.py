"""The console for all printed output, and the style of its tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from render_agent.util.sanitize import visible


class PlainConsole(Console):
    """A console that interprets no markup and escapes control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render with the control characters in text escaped."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def plain_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console on standard output or standard error."""
    return PlainConsole(stderr=stderr, quiet=quiet)


def plain_table(title: str | Text, *heads: str) -> Table:
    """Return an empty table whose first column is left-aligned and the others right-aligned.

    In a narrow terminal the widest columns wrap first; nothing is truncated.

    Args:
        title: Pass untrusted text as `Text`, so that its markup is not interpreted.
        heads: Column headings.
    """
    table = Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    return table
