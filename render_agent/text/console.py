"""The console that everything is printed on, and the form of its tables; texts are printed as they are, never as markup."""

from __future__ import annotations

from rich import box
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from render_agent.text.sanitize import visible


def plain_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console on standard output, or on standard error.

    It knows no markup and no names of pictures, colours nothing by itself, and what would command the
    terminal is shown as an escape.
    """
    console = Console(stderr=stderr, quiet=quiet, highlight=False, markup=False, emoji=False)
    console.push_render_hook(_Visible())
    return console


class _Visible(RenderHook):
    """Has everything that is printed made visible."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Shown(renderable) for renderable in renderables]


class _Shown:
    """Something to be printed, its text made visible once it is laid out."""

    def __init__(self, inner: ConsoleRenderable) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self.inner, options):
            yield Segment(text if control else visible(text), style, control)


def plain_table(title: str | Text, *heads: str) -> Table:
    """Return a table without rows; a title that comes from outside is given as `Text`.

    heads: of its columns: names on the left, then figures on the right. In a terminal that is too narrow
    the widest columns are broken first, and nothing is cut off.
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
