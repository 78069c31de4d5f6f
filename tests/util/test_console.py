"""Printed tables, in terminals of different widths."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from render_agent.util.console import PlainConsole, PlainTable

WORDS = st.text(st.sampled_from("abcXYZ019_-/.椅子é"), min_size=1, max_size=30)
CELLS = st.lists(WORDS, max_size=5).map(" ".join)


def printed(table, width):
    console = PlainConsole(width=width)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def make_table(heads, rows, title="", caption="", right=()):
    table = PlainTable(title)
    table.caption = caption
    for number, head in enumerate(heads):
        table.add_column(head, right=number in right)
    for row in rows:
        table.add_row(*row)
    return table


@pytest.mark.parametrize("width", [80, 60, 40])
def test_narrow_terminals_wrap_without_truncating(width):
    names = [f"question_about_the_relative_position_of_furniture_{n}" for n in range(2)]
    table = PlainTable("scores", "question type", "n", "score", "95 % interval")
    for name in names:
        table.add_row(name, "16", "43.2", "12.4 … 33.3")
    lines = printed(table, width).splitlines()
    longest_word = max(map(len, names))
    assert max(map(len, lines)) <= max(width, longest_word)
    assert sum("12.4 … 33.3" in line for line in lines) == len(names)
    assert sum("43.2" in line for line in lines) == len(names)
    assert all(any(name in line for line in lines) for name in names)


@given(st.data(), st.integers(1, 6), st.integers(10, 200))
def test_no_word_is_broken_and_no_column_is_cut(data, columns, width):
    heads = data.draw(st.lists(CELLS, min_size=columns, max_size=columns))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=columns, max_size=columns), max_size=4))
    right = data.draw(st.sets(st.integers(0, columns - 1)))
    title, caption = data.draw(CELLS), data.draw(CELLS)
    text = printed(make_table(heads, rows, title, caption, right), width)
    all_words = text.split()
    for cell in [title, caption, *(cell for row in rows for cell in row)]:
        for word in cell.split():
            assert word in all_words
            all_words.remove(word)
    for line in text.splitlines():
        used = cell_len(line.rstrip())
        # only the last word of a line may extend past the edge
        assert used <= width or cell_len(line.rstrip().rpartition(" ")[0].rstrip()) <= width


@given(st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=5))
def test_wide_tables_have_a_line_per_row(rows):
    lines = printed(make_table("abc", rows, right={1}), 400).splitlines()
    assert [re.split(r"\s{2,}", line.strip()) for line in lines[2:]] == rows


def test_columns_shrink_only_to_their_longest_word():
    table = make_table(["run", "what it did"], [["a" * 30, "many short words " * 10]])
    lines = printed(table, 50).splitlines()
    assert lines[2].startswith("a" * 30 + "  many")
    assert len(lines) > 4


def test_rows_become_lists_if_the_columns_do_not_fit():
    heads = ["run", "status", "model"]
    rows = [["20261127T091944_batched", "complete", "organisation/model-name"]] * 2
    table = make_table(heads, rows)
    assert "run" in printed(table, 80).splitlines()[0]
    lines = printed(table, 40).splitlines()
    assert lines[0] == f"run {rows[0][0]}"
    assert [line.strip() for line in lines[1:3]] == [
        "status complete",
        "model organisation/model-name",
    ]


def test_control_characters_do_not_disturb_the_columns():
    table = make_table(["a \x9b", "b"], [["x\x1b[2J", "1"], ["y\ty", "2"]], right={1})
    lines = printed(table, 80).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "\\u001b[2J" in lines[2]
