"""What questions took: turns, calls of the model, pictures, tokens and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.state import QuestionState, Tokens
from render_agent.text.safe_parse import plain

COUNTED = ("turns", "renders", "tokens_in", "tokens_out")
"""What the row of a question says that it took."""


def question_work(state: QuestionState) -> dict[str, int]:
    """Return what a question took, by COUNTED.

    renders: distinct pictures that were drawn for it, those of candidates too; a picture that the
    questions of a scene share counts for each that shows it. Tokens are those of all samples, groups and
    verifiers; those that were read from a cache are among tokens_in.
    """
    return {
        "turns": len(state.turns),
        "renders": len({file for turn in state.turns for file in turn.drawn}),
        "tokens_in": sum(turn.tokens.prompt for turn in state.turns),
        "tokens_out": sum(turn.tokens.reply for turn in state.turns),
    }


def totals(states: Sequence[QuestionState]) -> dict[str, Any]:
    """Return turns, calls of the model, pictures, events, tokens and seconds, over all logged turns.

    A turn's generating time is that of its whole batch, so each turn counts its share of it, as it
    counts its share of the call. renders: distinct pictures over the run. per_question: means over the
    questions that have a turn, None where none has.
    """
    turns = [turn for state in states for turn in state.turns]
    events = Counter(event for turn in turns for event in turn.events)
    events.update(event for state in states for event in state.lost_events)
    calls = sum(1 / t.batch_size + (t.evidence.calls if t.evidence else 0.0) for t in turns)
    return {
        "turns": len(turns),
        "calls": round(calls),
        "renders": len({file for turn in turns for file in turn.drawn}),
        "events": dict(sorted(events.items())),
        "tokens": plain(Tokens.total(turn.tokens for turn in turns)),
        "seconds": {
            "rendering": round(sum(turn.seconds.rendering for turn in turns), 3),
            "waiting": round(sum(turn.seconds.waiting for turn in turns), 3),
            "generating": round(
                sum(turn.seconds.generating / turn.batch_size for turn in turns), 3
            ),
        },
        "per_question": per_question([question_work(s) for s in states if s.turns], calls),
    }


def per_question(rows: Sequence[Mapping[str, int]], calls: float) -> dict[str, float] | None:
    """Return the means of what questions took, and their share of the calls; None of none."""
    if not rows:
        return None
    means = {name: sum(row[name] for row in rows) / len(rows) for name in COUNTED}
    return means | {"calls": calls / len(rows)}
