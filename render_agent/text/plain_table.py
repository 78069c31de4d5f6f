"""The form of every table that the program prints: a rule below the head, everything at the left edge."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text


def plain_table(title: str | Text) -> Table:
    """Return an empty table under its title; a text that comes from outside is given as `Text`."""
    return Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
