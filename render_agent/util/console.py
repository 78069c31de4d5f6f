"""The console for all printed output, and its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import measure_renderables
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from render_agent.util.sanitize import escape_unsafe

GAP = 2  # spaces between two columns

READABLE_WIDTH = 80  # captions below narrow tables wrap at this width

MIN_TEXT_WIDTH = 20  # minimum width of a last column of text; longer words extend past the edge

UNLIMITED = (
    1 << 20
)  # width of a terminal in which rich measures and aligns text without breaking words


class PlainConsole(Console):
    """A console that interprets no markup, escapes control characters and does not crop lines."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print like `Console.print`, but do not crop lines."""
        super().print(*objects, **{"crop": False, **options})

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render with the control characters in text escaped."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escape_unsafe(text), style, control)


def plain_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console on standard output or standard error."""
    return PlainConsole(stderr=stderr, quiet=quiet)


class TableColumn(NamedTuple):
    header: str
    right: bool
    """True for right-aligned cells, which stay on one line; others wrap between words."""


class PlainTable:
    """A table for the terminal that neither breaks words nor omits text, however narrow the terminal is.

    Text wraps between words before rich aligns it: in a narrow terminal, rich breaks words and truncates cells. If the
    columns do not fit side by side, every row is printed as a list of headings and values instead.
    """

    def __init__(self, title: str | Text = "", *heads: str) -> None:
        self.title = title
        self.caption: str | Text | None = None
        self.columns: list[TableColumn] = []
        self._rows: list[list[Text]] = []
        self._sections: set[int] = set()
        for number, head in enumerate(heads):
            self.add_column(head, right=number > 0)

    def add_column(self, header: str, *, right: bool = False) -> None:
        """Add a column, left-aligned by default."""
        self.columns.append(TableColumn(_text(header).plain, right))

    def add_row(self, *cells: str | Text) -> None:
        """Add a row; missing cells are empty."""
        empty = [""] * (len(self.columns) - len(cells))
        self._rows.append([_text(cell) for cell in (*cells, *empty)])

    def add_section(self) -> None:
        """Leave a blank line before the next row."""
        self._sections.add(len(self._rows))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for text in self._texts(console, options.max_width, options.update(max_width=UNLIMITED)):
            text.overflow = "ignore"
            yield text

    def _texts(self, console: Console, width: int, unlimited: ConsoleOptions) -> Iterator[Text]:
        widths = self._fit(width, console, unlimited)
        if self.title:
            yield _wrap(_text(self.title, "table.title"), width)
        if widths is None:
            yield from self._list_rows(width)
        else:
            for line in console.render_lines(self._align(widths), unlimited, pad=False):
                text = Text.assemble(*((part.text, part.style or "") for part in line))
                text.rstrip()  # the padding of long words in other rows
                yield text
        if self.caption:
            table_width = sum(widths) + GAP * (len(widths) - 1) if widths else 0
            caption = _text(self.caption, "table.caption")
            yield _wrap(caption, min(width, max(table_width, READABLE_WIDTH)))

    def _fit(self, width: int, console: Console, unlimited: ConsoleOptions) -> list[int] | None:
        """Return the widths of the columns; None if they do not fit side by side."""
        limits = []
        for number, column in enumerate(self.columns):
            cells = [row[number] for row in self._rows]
            head = measure_renderables(console, unlimited, [Text(column.header)])
            body = measure_renderables(console, unlimited, cells)
            minimum = max(head.minimum, body.maximum if column.right else body.minimum)
            if number == len(self.columns) - 1 and not column.right:
                minimum = min(minimum, MIN_TEXT_WIDTH)
            limits.append((minimum, max(head.maximum, body.maximum, minimum)))
        widths = [minimum for minimum, _ in limits]
        missing = [maximum - minimum for minimum, maximum in limits]
        remaining = width - sum(widths) - GAP * (len(widths) - 1)
        if remaining < 0:
            return None
        by_need = sorted(range(len(missing)), key=missing.__getitem__)
        for place, number in enumerate(by_need):
            share = min(missing[number], remaining // (len(by_need) - place))
            widths[number] += share
            remaining -= share
        return widths

    def _align(self, widths: Sequence[int]) -> Table:
        """Return the table in rich's layout, with the text of its cells wrapped."""
        has_heads = any(column.header for column in self.columns)
        padding = (0, GAP - 1, 0, 0)  # rich adds a divider
        table = Table(
            box=SIMPLE_HEAD, show_header=has_heads, show_edge=False, pad_edge=False, padding=padding
        )
        for column, width in zip(self.columns, widths, strict=True):
            head = _wrap(Text(column.header), width)
            table.add_column(head, justify="right" if column.right else "left", min_width=width)
        for number, row in enumerate(self._rows, start=1):
            table.add_row(*map(_wrap, row, widths), end_section=number in self._sections)
        return table

    def _list_rows(self, width: int) -> Iterator[Text]:
        """Yield every row as headings and values, the first one on a separate line."""
        for number, row in enumerate(self._rows):
            if number and number in self._sections:
                yield Text()
            pairs = [
                f"{column.header} {' '.join(cell.plain.split())}".strip()
                for column, cell in zip(self.columns, row, strict=True)
                if cell
            ]
            first, *rest = pairs or [""]
            yield _wrap(Text(first, "bold"), width)
            for line in _join_pairs(rest, width - GAP):
                for part in _wrap(Text(line), width - GAP).split():
                    yield Text(" " * GAP) + part


def _join_pairs(pairs: Sequence[str], width: int) -> list[str]:
    """Join texts to lines of at most `width` if possible."""
    lines: list[str] = []
    for pair in pairs:
        line = f"{lines[-1]} · {pair}" if lines else pair
        if lines and cell_len(line) <= width:
            lines[-1] = line
        else:
            lines.append(pair)
    return lines


def _wrap(text: Text, width: int) -> Text:
    """Break the lines of a text between words; a word longer than `width` gets its own line."""
    lines = []
    for line in text.split(allow_blank=True):
        start, breaks = 0, []
        for word in re.finditer(r"\S+", line.plain):
            has_words = line.plain[start : word.start()].strip()
            if has_words and cell_len(line.plain[start : word.end()]) > width:
                start = word.start()
                breaks.append(start)
        for part in line.divide(breaks):
            part.rstrip()
            lines.append(part)
    return Text("\n").join(lines)


def _text(cell: str | Text, style: str = "") -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(escape_unsafe(cell).replace("\t", " "))
    text.stylize_before(style)
    return text
