"""Adds the search for evidence to the comparison of runs. It needs the visibility in all views, so only pages have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase as LETTERS
from typing import Any

from render_agent.report.answering.evidence import commitment_cost, evidence_terms
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.sentences.contrasts import describe_difference
from render_agent.runs.read import RunData
from render_agent.score.dialogues.answering import answers_by_turn
from render_agent.score.intervals import add_holm
from render_agent.score.tables import format_signed
from render_agent.score.terms import compare_terms
from render_agent.util.display import count_noun


def compare_evidence(runs: Sequence[RunData], pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Add figures to the pairs whose models explore; return sentences about premature answers."""
    sentences = []
    for letter, run, pair in zip(LETTERS[1:], runs[1:], pairs, strict=False):
        if "answering" not in pair or not (runs[0].parts.free and run.parts.free):
            continue
        answered = [answers_by_turn(side.states).keys() for side in (runs[0], run)]
        shared = answered[0] & answered[1]
        sides = [
            ([s for s in side.states if s.id in shared], diagnose_run(side), side.config.image_size)
            for side in (runs[0], run)
        ]
        in_a, in_b = (evidence_terms(*side) for side in sides)
        entries = {name: compare_terms(in_a[name], in_b[name]) for name in in_a}
        pair["answering"].update({name: entry for name, entry in entries.items() if entry})
        if cost := commitment_cost(sides):
            sentences.append(
                f"On questions that only one of {LETTERS[0]} and {letter} answered before all named objects were seen, the"
                f" early answers score {format_signed(-cost['value'])} points ({count_noun(cost['n'], 'question')};"
                f" {describe_difference(cost['p'])})."
            )
    add_holm([entry for pair in pairs for entry in pair.get("answering", {}).values()])
    return sentences
