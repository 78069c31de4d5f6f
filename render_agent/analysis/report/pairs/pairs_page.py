"""The page of the pairs: the figures of every change, and the questions with their counterparts side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.analysis.report.data import ReportData, page_of, write_page
from render_agent.analysis.report.words import type_words
from render_agent.dialogue.counterfactual import Change
from render_agent.dialogue.state import Question, QuestionState, View
from render_agent.runs.log.pairs import pair_of
from render_agent.score.causal import WORDS, verdict
from render_agent.score.tables import figure, interval, probability, signed

MOST_SHOWN = 60
"""Pairs with pictures, of every verdict that a pair may have; others are in a table."""

VERDICTS = {
    "keeps": ("wrong", "kept its answer though it must change"),
    "strays": ("wrong", "changed its answer though it must not"),
    "other": ("wrong", "changed its answer, not to the right one"),
    "unanswered": ("open", "gave no answer to both"),
    "follows": ("right", "followed the change"),
    "stays": ("right", "kept its answer, as it must"),
}
"""What became of a pair, the most telling first: the class of its mark, and the words."""


@dataclass(frozen=True, slots=True)
class MemberPart:
    """A question of a pair as the page shows it: its page, its pictures, its answer and what is right."""

    state: QuestionState
    page: str
    views: Sequence[View]
    right: bool

    @property
    def question(self) -> Question:
        """The question."""
        return self.state.question


@dataclass(frozen=True, slots=True)
class PairPart:
    """A pair as the page shows it; verdict: one of VERDICTS, None while it is not done."""

    change: Change
    type: str
    members: tuple[MemberPart, MemberPart]
    verdict: str | None


def write_pairs(report: ReportData, folder: Path) -> None:
    """Write `pairs.html`, if the run has pairs."""
    if "causal" not in report.results:
        return
    parts = pair_parts(report.states)
    ranks = [*VERDICTS, None]
    shown: list[PairPart] = []
    for name in ranks:
        shown += [part for part in parts if part.verdict == name][:MOST_SHOWN]
    write_page(
        folder / "pairs.html",
        "pairs.html",
        report.frame,
        root="",
        figures=figure_rows(report.results["causal"]),
        left_out=report.results["causal"]["left_out"],
        shown=shown,
        total=len(parts),
        verdicts=VERDICTS,
        type_words=type_words,
    )


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


def pair_parts(states: Sequence[QuestionState]) -> list[PairPart]:
    """Return the pairs of a run in its order."""
    known = {state.id: state for state in states}
    parts = []
    for second in states:
        change = second.question.change
        if change is None or change.of not in known:
            continue
        first = known[change.of]
        pair = pair_of(first, second)
        right = (False, False) if pair is None else pair.right
        pictured = bool(change.edits)
        members = (
            MemberPart(first, page_of(first.id), _views(first) if pictured else (), right[0]),
            MemberPart(second, page_of(second.id), _views(second) if pictured else (), right[1]),
        )  # fmt: skip
        parts.append(
            PairPart(change, first.question.type, members, None if pair is None else verdict(pair))
        )
    return parts


def _views(state: QuestionState) -> Sequence[View]:
    """Return the first views."""
    return state.turns[0].views if state.turns else ()
