"""Pairs page: a plot and the figures of each change, and a table of the questions with their counterparts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Change
from render_agent.dialogue.state import QuestionState
from render_agent.parts.counterfactual.causal import (
    CounterpartPair,
    classify_pair,
    make_pair,
    parts_by_change,
)
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.pages.page import TEMPLATES, page_of
from render_agent.report.pages.plots import palette
from render_agent.report.pages.plots.run_plots import Plot, interval_note, write_plots
from render_agent.report.pages.plots.svg import Dots, draw_dots
from render_agent.report.pages.report_page import ReportPage
from render_agent.runs.read import RunData
from render_agent.score.tables import figure, format_signed, interval, probability
from render_agent.tasks.question_types import answer_form_of, type_label

MAX_PAIRS = 1000  # pairs in the table

# figure of `causal` -> label, colour and marker in the plot
REACTIONS = {
    "follows": ("answer must change: changed correctly", palette.BLUE, "o"),
    "stays": ("answer must stay: stayed", palette.GREEN, "s"),
}

# verdict -> CSS class and text, most informative first
VERDICTS = {
    "keeps": ("wrong", "should have changed, but did not"),
    "strays": ("wrong", "should not have changed, but did"),
    "other": ("wrong", "changed to a wrong answer"),
    "unanswered": ("open", "not answered twice"),
    "follows": ("right", "changed as expected"),
    "stays": ("right", "unchanged, as expected"),
    None: ("", "not finished"),
}


# figure of `causal` -> heading of its column
SHARES = {
    "follows": "changed correctly",
    "keeps": "stayed, but should change",
    "stays": "stayed, as it should",
    "strays": "changed, but should stay",
    "both_right": "both correct",
}


class FigureRow(NamedTuple):
    """A row of the table of figures."""

    name: str
    number: str
    """Number of pairs."""
    cells: list[tuple[str, str, str]]
    """Figure, subject, and confidence interval, per column."""


class ShownPair(NamedTuple):
    """A question and its counterpart."""

    change: Change
    states: tuple[QuestionState, QuestionState]
    marks: tuple[tuple[bool, str], tuple[bool, str]]
    """Whether each answer is correct, and its result in words."""
    verdict: str | None
    """A key of VERDICTS."""

    def view(self, state: QuestionState) -> View | None:
        """Return the first view; None if only the wording changed."""
        views = state.turns[0].views if self.change.edits and state.turns else ()
        return views[0] if views else None


class PairsPage(ReportPage):
    """The answers to changed questions beside those to the original ones."""

    title = "Pairs"
    description = "Some questions were asked twice, unchanged and with one change"
    template = TEMPLATES / "pairs.html"

    def variables(
        self, run: RunData, diagnoses: Mapping[str, Diagnosis], folder: Path
    ) -> Mapping[str, Any] | None:
        """Write the plot and return the variables, if the run has pairs."""
        causal = run.results.get("causal")
        if causal is None:
            return None
        pairs = find_shown_pairs(run.dialogues)
        plot = plot_reactions(causal)
        write_plots(folder, plot)
        order = list(VERDICTS)
        return {
            "plot": plot,
            "heads": [*SHARES.values(), "score difference"],
            "figures": figure_rows(causal),
            "left_out": causal["left_out"],
            "pairs": sorted(pairs, key=lambda pair: order.index(pair.verdict))[:MAX_PAIRS],
            "total": len(pairs),
            "verdicts": VERDICTS,
            "type_label": type_label,
            "page_of": page_of,
        }


def find_shown_pairs(states: Sequence[QuestionState]) -> list[ShownPair]:
    """Return the pairs of a run in order."""
    states_by_id = {state.id: state for state in states}
    pairs = []
    for counterpart in states:
        change = counterpart.question.change
        if change is not None and change.original_id in states_by_id:
            original = states_by_id[change.original_id]
            pair = make_pair(original, counterpart, change)
            verdict = None if pair is None else classify_pair(pair)
            pairs.append(ShownPair(change, (original, counterpart), _marks(pair), verdict))
    return pairs


def _marks(pair: CounterpartPair | None) -> tuple[tuple[bool, str], tuple[bool, str]]:
    """Return whether the answers of a pair are correct; in words right or wrong for choices, and the score for numbers."""
    if pair is None:
        return (False, "not finished"), (False, "not finished")
    is_choice = answer_form_of(pair.type) == "letter"
    original, changed = (
        (is_right, ("right" if is_right else "wrong") if is_choice else f"{100 * score:.0f} %")
        for is_right, score in zip(pair.right, pair.scores, strict=True)
    )
    return original, changed


def plot_reactions(causal: Mapping[str, Any]) -> Plot | None:
    """Plot how often the answers react correctly to each change; return None if no pair is finished."""
    changes = {name: part for name, part in causal["changes"].items() if part["n"]}
    if not changes:
        return None

    series = []
    for name, style in REACTIONS.items():
        parts = [part[name] for part in changes.values()]
        shares = [part["share"] if part["n"] else None for part in parts]
        series.append(Dots(*style, shares, [part["interval"] for part in parts]))
    svg = draw_dots(
        [f"{name} (n = {part['n']})" for name, part in changes.items()],
        series,
        "pairs (%)",
        row_height=0.32,
        columns=1,
    )
    return Plot(
        "pairs",
        "Reaction to each change",
        "Two dots per change with their 95 % confidence intervals: the share of answers that changed correctly, and of those"
        " that stayed the same as they must.",
        svg,
        interval_note(),
    )


def figure_rows(causal: Mapping[str, Any]) -> list[tuple[str, list[FigureRow]]]:
    """Return (heading, rows) of the table: over all pairs and by change, and by question type."""
    changes = parts_by_change(causal)
    types = {type_label(name): part for name, part in causal["types"].items()}
    return [
        (heading, [_row(name, part) for name, part in parts.items()])
        for heading, parts in (("change", changes), ("question type", types))
    ]


def _row(name: str, part: Mapping[str, Any]) -> FigureRow:
    cells = [
        (
            figure(part[share]["share"]),
            f"n = {part[share]['n']:,}",
            interval(part[share]["interval"]),
        )
        if part[share]["n"]
        else ("–", "", "")
        for share in SHARES
    ]
    difference = part["difference"]
    p = difference["p"] if difference.get("p_holm") is None else difference["p_holm"]
    test = "" if p is None else f"{'Holm ' if 'p_holm' in difference else ''}p = {probability(p)}"
    scores = f"{figure(part['changed'])} − {figure(part['original'])}"
    bounds = interval(difference["interval"])
    cells.append(
        (format_signed(difference["points"]), scores, ", ".join(filter(None, (bounds, test))))
    )
    return FigureRow(name, f"{part['n']:,}", cells)
