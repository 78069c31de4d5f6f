"""Candidate moves: parsed from replies, drawn, scored by verifiers, and the one that is taken."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from render_agent.agents.agent import Decision, Draw, Judge, Need
from render_agent.agents.verifiers.score_fusion import fused, judgements
from render_agent.agents.verifiers.verifier import Case, FloatArray, TurnContext, Verdict, Verifier
from render_agent.dialogue.evidence import Candidate, Evidence
from render_agent.dialogue.feedback import feedback_on
from render_agent.dialogue.moves import StepResult
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import Action, Malformed, read
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply
from render_agent.views.provider import ViewProvider


def read_reply(
    context: TurnContext, text: str, prompt: Prompt, *, cut_off: bool = False
) -> tuple[Action | Malformed, StepResult]:
    """Return the action of a reply in a context, and the step that it leads to.

    prompt: words the feedback. cut_off: whether the token limit ended the reply.
    """
    state, now = context.state, context.observation
    question, wording = state.question, prompt.wording
    action = read(text, question.wanted, question.options, measures=now.measures, wording=wording)
    result = feedback_on(
        action,
        state,
        now.camera,
        now.space,
        context.views,
        prompt.on_request,
        wording,
        cut_off=cut_off,
    )
    return action, result


def read_candidates(
    context: TurnContext, replies: Sequence[Reply], prompt: Prompt
) -> list[Candidate]:
    """Return a candidate for every sample of every reply, in their order; each reply is a group."""
    candidates: list[Candidate] = []
    for group, reply in enumerate(replies):
        for text in reply.samples:
            action, result = read_reply(context, text, prompt)
            if reply.finish == "length" and isinstance(action, Malformed):
                action, result = read_reply(context, text, prompt, cut_off=True)
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


@dataclass(frozen=True)
class AgentTools:
    """What agents work with in a run.

    prompt: words the dialogues. views: draws where candidates lead. verifiers: score them. seed: of the run.
    """

    prompt: Prompt
    views: ViewProvider
    verifiers: Sequence[Verifier] = ()
    seed: int = 0

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of view that a reply may ask for."""
        return self.prompt.on_request

    def preview(self, context: TurnContext, candidates: Sequence[Candidate]) -> Draw:
        """Return the need for candidates with what each would show, a list in their order."""
        state, now = context.state, context.observation
        return Draw(partial(self.views.preview, state, now, tuple(candidates)))

    def choose(
        self,
        context: TurnContext,
        replies: Sequence[Reply],
        evidence: Evidence,
        candidates: Sequence[Candidate],
        best: Callable[[Sequence[Candidate], FloatArray], Candidate],
    ) -> Generator[Need, Any, Decision]:
        """Have candidates scored and take the `best`; where no verifier could tell, the one chosen so far.

        best: gets the candidates and a fused score of each, (K,).
        """
        verdicts = yield from self._verdicts(context, tuple(candidates))
        values = fused(verdicts)
        if values is None:
            chosen = next(c for c in candidates if c.number == evidence.chosen)
        else:
            chosen = best(candidates, values)
        evidence = replace(
            with_candidates(evidence, candidates),
            chosen=chosen.number,
            weighed=tuple(candidate.number for candidate in candidates),
            judgements=judgements(self.verifiers, verdicts),
            fused=() if values is None else tuple(map(float, values)),
        )
        return decision(chosen, replies, evidence, verdicts)

    def _verdicts(
        self, context: TurnContext, candidates: tuple[Candidate, ...]
    ) -> Generator[Need, Any, tuple[Verdict, ...]]:
        silent = [verifier for verifier in self.verifiers if not verifier.asks_model]
        drawn: list[Verdict] = []
        asked: list[Verdict] = []
        if silent:
            drawn = yield Draw(lambda: [v.score(context, candidates) for v in silent])
        if len(silent) < len(self.verifiers):
            asked = yield Judge(Case(context, candidates))
        verdicts = iter(drawn), iter(asked)
        return tuple(next(verdicts[verifier.asks_model]) for verifier in self.verifiers)


def with_candidates(evidence: Evidence, candidates: Sequence[Candidate]) -> Evidence:
    """Return evidence with some candidates as they are now, and those that are new."""
    known = {candidate.number: candidate for candidate in evidence.candidates}
    known |= {candidate.number: candidate for candidate in candidates}
    return replace(evidence, candidates=tuple(known[number] for number in sorted(known)))


def decision(
    chosen: Candidate,
    replies: Sequence[Reply],
    evidence: Evidence,
    verdicts: Sequence[Verdict] = (),
) -> Decision:
    """Return the decision for a candidate, with what choosing took.

    replies: those of the groups in their order, then all others that the turn took.
    """
    own = replies[0]
    calls = sum(1 / reply.batch_size for reply in replies) - 1 / own.batch_size
    spent = Tokens.total(verdict.tokens for verdict in verdicts)
    calls += sum(verdict.calls for verdict in verdicts)
    return Decision(
        reply=chosen.reply,
        action=chosen.action,
        result=StepResult(chosen.camera, chosen.feedback),
        replies=tuple(replies),
        finish=replies[chosen.group].finish,
        evidence=replace(evidence, tokens=spent, calls=calls),
        verdicts=tuple(verdicts),
    )
