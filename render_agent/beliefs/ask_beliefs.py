"""The probe after a turn: the model states its beliefs in a side dialogue."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from msgspec import structs

from render_agent.agents.agent import SEPARATOR, Ask, Draw, Need, turn_seed
from render_agent.dialogue.beliefs import read_belief
from render_agent.dialogue.chat import assistant, with_blocks
from render_agent.dialogue.probe import MAX_TOKENS, Probe, ProbePlan, ProbeRequest
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.engines.engine import Request, limit_reply
from render_agent.tasks.question_types import named_categories


def ask_beliefs(
    plan: ProbePlan, seed: int, state: QuestionState, request: Request, turn: Turn
) -> Generator[Need, Any, tuple[Turn, str]]:
    """Probe the beliefs after a turn, before it is logged. Return the turn with the probe, and the id of its dialogue."""
    categories = named_categories(state.question)
    message = plan.request(turn.feedback, categories)
    dialogue_id = f"{state.id}{SEPARATOR}turn {turn.number} probe"
    earlier_probe = next((past.probe for past in state.turns if past.probe), None)
    scene = (yield Draw(lambda: state.scene)) if earlier_probe is None else earlier_probe
    request = replace(
        request,
        dialogue_id=dialogue_id,
        question_id=state.id,
        messages=[*request.messages, with_blocks(assistant(turn.reply), turn.blocks), message],
        is_last_turn=False,
        num_samples=1,
        temperature=0.0,
        seed=turn_seed(seed, dialogue_id, turn.number),
        max_new_tokens=MAX_TOKENS,
        schema=None if request.schema is None else plan.schema,
        probe=ProbeRequest(tuple(plan.keys), categories, turn.camera),
    )
    (reply,) = yield Ask((request,))
    reply = limit_reply(reply, request)
    text = reply.samples[0] if reply.error is None else ""
    probe = Probe(
        asked=message["content"][0]["text"],
        reply=text,
        belief=None if reply.error is not None else read_belief(text, plan.keys.keys()),
        error=reply.error,
        finish=reply.finish,
        tokens=reply.tokens,
        seconds=round(reply.seconds, 4),
        batch_size=reply.batch_size,
        events=reply.events,
        origin=scene.origin,
        mirrored_at=scene.mirrored_at,
    )
    return structs.replace(turn, probe=probe), dialogue_id
