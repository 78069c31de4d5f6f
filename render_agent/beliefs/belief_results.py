"""Entries of `results.json` about beliefs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from render_agent.beliefs.belief_figures import belief_figures
from render_agent.beliefs.scored_probe import ScoredProbe, probes_of
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.tokens import reported_total
from render_agent.dialogue.turn import Turn
from render_agent.errors import QuestionsError
from render_agent.tasks.ground_truth import Facts, LoadFacts
from render_agent.views.stress.image_stress import ImageStress


def belief_results(
    states: Sequence[QuestionState], stress: ImageStress | None, facts: LoadFacts
) -> dict[str, Any]:
    """Return belief scores under the key `beliefs`; empty if no question was probed."""
    probed_states = _probed_states(states)
    if not probed_states:
        return {}
    try:
        return {
            "beliefs": belief_figures(probed_states, *_known_facts(probed_states, stress, facts))
        }
    except QuestionsError as error:  # box files were moved or edited since the run started
        return {"beliefs": {"note": str(error), **belief_figures(probed_states, {}, {})}}


def beliefs_of(
    states: Sequence[QuestionState], stress: ImageStress | None, facts: LoadFacts
) -> dict[str, list[ScoredProbe]]:
    """Return the scored probes of all probed questions by id."""
    probed_states = _probed_states(states)
    known_facts, truths = _known_facts(probed_states, stress, facts)
    return {state.id: probes_of(state, known_facts, truths) for state in probed_states}


def _probed_states(states: Sequence[QuestionState]) -> list[QuestionState]:
    return [state for state in states if any(turn.probe for turn in state.turns)]


def _known_facts(
    states: Sequence[QuestionState], stress: ImageStress | None, facts: LoadFacts
) -> tuple[dict[str, Facts], dict[str, str | None]]:
    """Return the facts of the questions' scenes by name, and the ground truths for the rooms as shown by question id."""
    questions = [state.question for state in states]
    truths = {q.id: q.ground_truth if stress is None else stress.ground_truth(q) for q in questions}
    return facts(questions), truths


def probe_totals(turns: Iterable[Turn]) -> dict[str, Any]:
    """Return the number and cost of all probes under the key `probes`; empty without probes. Other totals exclude them."""
    probes = [turn.probe for turn in turns if turn.probe]
    totals = {
        "asked": len(probes),
        "unreadable": sum(probe.parsed_belief is None and probe.error is None for probe in probes),
        "failed": sum(probe.error is not None for probe in probes),
        "calls": round(sum(1 / probe.batch_size for probe in probes)),
        "tokens": reported_total(probe.tokens for probe in probes),
        "seconds": round(sum(probe.seconds / probe.batch_size for probe in probes), 3),
    }
    return {"probes": totals} if probes else {}
