"""The table of a comparison as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from render_agent.report.sentences.verdicts import Pair
from render_agent.score.summary import row_names
from render_agent.score.tables import figure, format_signed, interval, probability

# characters that LaTeX interprets -> their escapes
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "…": r"\ldots{}",
    "<": "$<$",
    ">": "$>$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def table_cells(
    pairs: Sequence[Pair],  # the comparisons with the first run
    letters: Sequence[str],
) -> list[list[str]]:
    """Return the rows of a table of scores and differences, headings first."""
    reference, *other_letters = letters
    rows = [["score (%)"]]
    for letter in other_letters:
        rows[0] += [reference, letter, f"{letter} − {reference}", "95 % CI", "p", "Holm p"]
    names = dict.fromkeys(name for pair in pairs for name in pair["differences"])
    for name, label in row_names(names).items():
        cells = [label]
        for pair in pairs:
            entry = pair["differences"].get(name)
            cells += ["–"] * 6 if entry is None else [
                figure(entry["a"]),
                figure(entry["b"]),
                format_signed(entry["difference"]),
                interval(entry["interval"]) or "–",
                probability(entry["p"]),
                probability(entry["p_holm"]),
            ]  # fmt: skip
        rows.append(cells)
    return rows


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format a table, headings first, as Markdown."""
    lines = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in rows]
    lines.insert(1, ["---", *["---:"] * (len(rows[0]) - 1)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_latex(rows: Sequence[Sequence[str]]) -> str:
    """Format a table, headings first, as LaTeX with the rules of booktabs."""
    heads, *lines = (
        " & ".join("".join(LATEX.get(c, c) for c in cell) for cell in row) + r" \\" for row in rows
    )
    columns = "l" + "r" * (len(rows[0]) - 1)
    parts = [
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        heads,
        "\\midrule",
        *lines,
        "\\bottomrule",
    ]
    return "\n".join([*parts, "\\end{tabular}", ""])


def as_csv(rows: Sequence[Sequence[str]]) -> str:
    """Format a table, headings first, as CSV with ASCII minus signs."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [cell.replace("−", "-") for cell in row] for row in rows
    )
    return text.getvalue()


# name -> format of a table, for `compare --table` and the page
FORMATS: Mapping[str, tuple[str, Callable[[Sequence[Sequence[str]]], str]]] = {
    "markdown": ("Markdown", as_markdown),
    "latex": ("LaTeX", as_latex),
    "csv": ("CSV", as_csv),
}
