"""Candidate moves parsed from replies: the action of each, and the camera that it would lead to."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.agents.verifiers.base import TurnContext
from render_agent.dialogue.feedback import feedback_on
from render_agent.dialogue.moves import StepResult
from render_agent.dialogue.reply import KINDS, Action, Malformed, read
from render_agent.dialogue.state import Candidate
from render_agent.engines.base import Reply


def read_reply(
    context: TurnContext, text: str, kinds: Sequence[str], *, cut_off: bool = False
) -> tuple[Action | Malformed, StepResult]:
    """Return what a reply asks for in a context, and what it leads to.

    kinds: the kinds of view that may be asked for. cut_off: whether the token limit ended the reply.
    """
    state, now = context.state, context.observation
    known = (*KINDS, *(kind for kind in kinds if kind not in KINDS))
    question = state.question
    action = read(text, question.wanted, question.options, known, measures=now.measures)
    views = context.views
    return action, feedback_on(action, state, now.camera, now.space, views, kinds, cut_off=cut_off)


def read_candidates(
    context: TurnContext, replies: Sequence[Reply], kinds: Sequence[str]
) -> list[Candidate]:
    """Return a candidate for every sample of every reply, in their order; each reply is a group."""
    candidates: list[Candidate] = []
    for group, reply in enumerate(replies):
        for text in reply.samples:
            action, result = read_reply(context, text, kinds)
            if reply.finish == "length" and isinstance(action, Malformed):
                action, result = read_reply(context, text, kinds, cut_off=True)
            candidates.append(
                Candidate(
                    len(candidates), text, action, result.feedback, result.camera, group=group
                )
            )
    return candidates


def default_candidate(context: TurnContext, candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that would be taken were there no choice.

    That is the first that can be read; in the last turn the first that answers.
    """
    if context.last:
        answering = [c for c in candidates if c.action.answer is not None]
        if answering:
            return answering[0]
    readable = [c for c in candidates if isinstance(c.action, Action)]
    return (readable or candidates)[0]
