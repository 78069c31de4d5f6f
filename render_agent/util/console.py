"""The console for all printed output, and its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from render_agent.util.sanitize import escape_unsafe

GAP = 2  # spaces between two columns

READABLE_WIDTH = 80  # captions below narrow tables wrap at this width

MIN_TEXT_WIDTH = 20  # minimum width of a last column of text; longer words extend past the edge


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


@dataclass(frozen=True, slots=True)
class TableColumn:
    header: str
    right: bool
    """True for right-aligned cells, which stay on one line; others wrap between words."""


class PlainTable:
    """A table for the terminal that neither breaks words nor omits text, however narrow the terminal is.

    Text wraps between words. If the columns do not fit side by side, every row is printed as a list of headings and
    values instead. Rich's own table breaks words and truncates cells.
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

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        widths = self._fit(options.max_width)
        lines = self._list_rows(options.max_width) if widths is None else self._align_rows(widths)
        if self.title:
            title = _text(self.title)
            title.stylize_before("table.title")
            yield from _wrap(title, options.max_width)
        yield from lines
        if self.caption:
            caption = _text(self.caption)
            caption.stylize_before("table.caption")
            table_width = sum(widths) + GAP * len(widths) - GAP if widths else 0
            width = min(options.max_width, max(table_width, READABLE_WIDTH))
            yield from _wrap(caption, width)

    def _fit(self, max_width: int) -> list[int] | None:
        """Return the widths of the columns; None if they do not fit side by side."""
        limits = [self._limits(number) for number in range(len(self.columns))]
        widths = [minimum for minimum, _ in limits]
        missing = [maximum - minimum for minimum, maximum in limits]
        remaining = max_width - sum(widths) - GAP * (len(widths) - 1)
        if remaining < 0:
            return None
        by_need = sorted(range(len(missing)), key=missing.__getitem__)
        for place, number in enumerate(by_need):
            share = min(missing[number], remaining // (len(by_need) - place))
            widths[number] += share
            remaining -= share
        return widths

    def _limits(self, number: int) -> tuple[int, int]:
        """Return the width of a column's longest unbreakable part, and its width without any wrapping."""
        column, cells = self.columns[number], [row[number] for row in self._rows]
        lines = [line for cell in cells for line in cell.split(allow_blank=True)]
        head = Text(column.header)
        words = [Text(word) for line in [head, *lines] for word in line.plain.split()]
        max_width = max((text.cell_len for text in [head, *lines]), default=0)
        min_width = max((word.cell_len for word in words), default=0)
        if column.right:
            min_width = max(min_width, *(line.cell_len for line in lines), 0)
        elif number == len(self.columns) - 1:
            min_width = min(min_width, MIN_TEXT_WIDTH)
        return min_width, max(max_width, min_width)

    def _align_rows(self, widths: Sequence[int]) -> Iterator[Text]:
        if any(column.header for column in self.columns):
            heads = [Text(column.header, "table.header") for column in self.columns]
            yield from self._align(heads, widths, at_bottom=True)
            yield Text("─" * (sum(widths) + GAP * (len(widths) - 1)), overflow="ignore")
        for number, row in enumerate(self._rows):
            if number and number in self._sections:
                yield Text()
            yield from self._align(row, widths)

    def _align(
        self, row: Sequence[Text], widths: Sequence[int], at_bottom: bool = False
    ) -> Iterator[Text]:
        cells = [_wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
        if at_bottom:
            height = max(map(len, cells))
            cells = [[Text()] * (height - len(lines)) + lines for lines in cells]
        for lines in zip_longest(*cells, fillvalue=Text()):
            line = Text(overflow="ignore")
            for column, width, part in zip(self.columns, widths, lines, strict=True):
                space = Text(" " * max(width - part.cell_len, 0))
                line.append_text(space + part if column.right else part + space)
                line.append(" " * GAP)
            line.rstrip()
            yield line

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
            yield from _wrap(Text(first, "bold"), width)
            for line in _join_pairs(rest, width - GAP):
                for part in _wrap(Text(line), width - GAP):
                    yield Text(" " * GAP, overflow="ignore") + part


def _join_pairs(pairs: Sequence[str], width: int) -> list[str]:
    """Join texts to lines of at most `width` if possible."""
    lines: list[str] = []
    for pair in pairs:
        line = f"{lines[-1]} · {pair}" if lines else pair
        if lines and Text(line).cell_len <= width:
            lines[-1] = line
        else:
            lines.append(pair)
    return lines


def _wrap(text: Text, width: int) -> list[Text]:
    """Split a text into lines between words; a word longer than `width` gets its own line."""
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
            part.overflow = "ignore"
            lines.append(part)
    return lines


def _text(cell: str | Text) -> Text:
    if isinstance(cell, Text):
        return cell.copy()
    return Text(escape_unsafe(cell).replace("\t", " "))
