"""Pairs page: figures of each change, and the questions with their counterparts side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from render_agent.dialogue.question import Change
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.view import View
from render_agent.report.pages.page import frame, page_of, write_page
from render_agent.report.pages.words import type_words
from render_agent.runs.read import RunData
from render_agent.score.causal import WORDS, pair_of, verdict
from render_agent.score.tables import figure, interval, probability, signed

MAX_PAIRS = 60  # pairs shown per verdict

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


class ShownPair(NamedTuple):
    """A question and its counterpart."""

    change: Change
    states: tuple[QuestionState, QuestionState]
    right: tuple[bool, bool]
    """Whether each answer is right."""
    verdict: str | None
    """A key of VERDICTS."""

    def views(self, state: QuestionState) -> Sequence[View]:
        """Return the views of the first turn; empty if only the wording changed."""
        return state.turns[0].views if self.change.edits and state.turns else ()


def write_pairs(run: RunData, folder: Path) -> None:
    """Write `pairs.html`, if the run has pairs."""
    if "causal" not in run.results:
        return
    pairs = shown_pairs(run.states)
    write_page(
        folder / "pairs.html",
        "pairs.html",
        frame(run),
        root="",
        figures=figure_rows(run.results["causal"]),
        left_out=run.results["causal"]["left_out"],
        pairs=[p for name in VERDICTS for p in [p for p in pairs if p.verdict == name][:MAX_PAIRS]],
        total=len(pairs),
        verdicts=VERDICTS,
        type_words=type_words,
        page_of=page_of,
    )  # fmt: skip


def shown_pairs(states: Sequence[QuestionState]) -> list[ShownPair]:
    """Return the pairs of a run in order."""
    states_by_id = {state.id: state for state in states}
    pairs = []
    for second in states:
        change = second.question.change
        if change is not None and change.original_id in states_by_id:
            first = states_by_id[change.original_id]
            pair = pair_of(first, second)
            right = (False, False) if pair is None else pair.right
            pairs.append(
                ShownPair(change, (first, second), right, None if pair is None else verdict(pair))
            )
    return pairs


def figure_rows(causal: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    """Return (label, rows) over all pairs, by change and by type; a row is (figure, n, share, confidence interval)."""
    parts = {"all changes": causal, **causal["changes"]}
    if len(causal["changes"]) == 1:
        del parts["all changes"]
    parts |= {type_words(name): part for name, part in causal["types"].items()}
    return [(name, _rows(part)) for name, part in parts.items()]


def _rows(part: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    rows = [
        (words, f"{part[name]['n']:,}", figure(part[name]["share"]), interval(part[name]["interval"]))
        for name, words in WORDS.items()
        if name in part and part[name]["n"]
    ]  # fmt: skip
    difference = part["difference"]
    p_values = f", p = {probability(difference['p'])}" if difference["p"] is not None else ""
    if difference.get("p_holm") is not None:
        p_values += f", Holm p = {probability(difference['p_holm'])}"
    label = f"score difference, changed − original (points): {figure(part['changed'])} − {figure(part['original'])}"
    cells = signed(difference["points"]), f"{interval(difference['interval'])}{p_values}"
    return [*rows, (label, f"{part['n']:,}", *cells)]
