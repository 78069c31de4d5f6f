"""The page of the pairs: the figures of every change, and the questions with their counterparts side by side."""

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

MOST_SHOWN = 60  # pairs with pictures of every verdict

VERDICTS = {
    "keeps": ("wrong", "kept its answer though it must change"),
    "strays": ("wrong", "changed its answer though it must not"),
    "other": ("wrong", "changed its answer, not to the right one"),
    "unanswered": ("open", "gave no answer to both"),
    "follows": ("right", "followed the change"),
    "stays": ("right", "kept its answer, as it must"),
    None: ("", "not done"),
}
"""What became of a pair, the most telling first: the class of its mark, and the words."""


class ShownPair(NamedTuple):
    """A question and its counterpart; right: whether each was answered rightly; verdict: one of VERDICTS."""

    change: Change
    states: tuple[QuestionState, QuestionState]
    right: tuple[bool, bool]
    verdict: str | None

    def views(self, state: QuestionState) -> Sequence[View]:
        """Return the first views; none if only words changed."""
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
        pairs=[p for name in VERDICTS for p in [p for p in pairs if p.verdict == name][:MOST_SHOWN]],
        total=len(pairs),
        verdicts=VERDICTS,
        type_words=type_words,
        page_of=page_of,
    )  # fmt: skip


def shown_pairs(states: Sequence[QuestionState]) -> list[ShownPair]:
    """Return the pairs of a run in its order."""
    known = {state.id: state for state in states}
    pairs = []
    for second in states:
        change = second.question.change
        if change is not None and change.of in known:
            first = known[change.of]
            pair = pair_of(first, second)
            right = (False, False) if pair is None else pair.right
            name = None if pair is None else verdict(pair)
            pairs.append(ShownPair(change, (first, second), right, name))
    return pairs


def figure_rows(causal: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    """Return for all pairs, every change and every type its rows: what is counted, of how many, the share, its interval."""
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
    apart = part["difference"]
    certain = f", p {probability(apart['p'])}" if apart["p"] is not None else ""
    if apart.get("p_holm") is not None:
        certain += f", by Holm {probability(apart['p_holm'])}"
    score = signed(apart["points"]), f"{interval(apart['interval'])}{certain}"
    both = f"{figure(part['changed'])} less {figure(part['original'])}"
    return [*rows, (f"score, changed less original, points: {both}", f"{part['n']:,}", *score)]
