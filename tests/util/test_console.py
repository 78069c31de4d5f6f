"""Printed tables, in terminals of different widths."""

import pytest
from rich.console import Console

from render_agent.util.console import plain_table


@pytest.mark.parametrize("width", [80, 60, 40])
def test_narrow_terminals_wrap_without_truncating(width):
    names = [f"question_about_the_relative_position_of_furniture_{n}" for n in range(2)]
    table = plain_table("scores", "question type", "n", "score", "95 % interval")
    for name in names:
        table.add_row(name, "16", "43.2", "12.4 … 33.3")
    console = Console(width=width)
    with console.capture() as printed:
        console.print(table)
    lines = printed.get().splitlines()
    assert max(map(len, lines)) <= width
    assert sum("12.4 … 33.3" in line and "43.2" in line for line in lines) == len(names)
    assert "".join(line.split("  ")[0].strip() for line in lines[3:]) == "".join(names)
