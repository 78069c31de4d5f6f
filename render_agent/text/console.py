"""The console that everything is printed on: texts are texts, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment

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
        yield from self._segments(console, options)

    def _segments(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self.inner, options):
            yield Segment(text if control else visible(text), style, control)
