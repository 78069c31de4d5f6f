"""What agents that choose among candidates share: their previews, their scores, and the decision."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from render_agent.agents.base import Decision, Draw, Judge, Need
from render_agent.agents.verifiers.base import Case, FloatArray, Panel, Situation, Verdict
from render_agent.agents.verifiers.score_fusion import fused, judgements
from render_agent.dialogue.moves import StepResult
from render_agent.dialogue.state import Candidate, Evidence, Tokens
from render_agent.engines.base import Reply
from render_agent.observation import ViewProvider


@dataclass(frozen=True)
class Reranker:
    """Draws and scores candidates.

    panel: the verifiers. views: draws where candidates lead.
    """

    panel: Panel
    views: ViewProvider

    def preview(self, situation: Situation, candidates: Sequence[Candidate]) -> Draw:
        """Return the need for candidates with what each would show, a list in their order."""
        state, now = situation.state, situation.look
        return Draw(partial(self.views.preview, state, now, tuple(candidates)))

    def choose(
        self,
        situation: Situation,
        replies: Sequence[Reply],
        evidence: Evidence,
        candidates: Sequence[Candidate],
        best: Callable[[Sequence[Candidate], FloatArray], Candidate],
    ) -> Generator[Need, Any, Decision]:
        """Have candidates scored and take the `best`; where no verifier could tell, the one chosen so far.

        best: gets the candidates and a fused score of each, (K,).
        """
        verdicts = yield from self._verdicts(situation, tuple(candidates))
        values = fused(self.panel, verdicts)
        if values is None:
            chosen = next(c for c in candidates if c.number == evidence.chosen)
        else:
            chosen = best(candidates, values)
        evidence = replace(
            with_candidates(evidence, candidates),
            chosen=chosen.number,
            weighed=tuple(candidate.number for candidate in candidates),
            judgements=judgements(self.panel, verdicts),
            fused=() if values is None else tuple(map(float, values)),
        )
        return decision(chosen, replies, evidence, verdicts)

    def _verdicts(
        self, situation: Situation, candidates: tuple[Candidate, ...]
    ) -> Generator[Need, Any, tuple[Verdict, ...]]:
        """Get a verdict of every verifier, in their order."""
        panel = self.panel
        silent: list[Verdict] = []
        asking: list[Verdict] = []
        if panel.silent:
            silent = yield Draw(lambda: [v.score(situation, candidates) for v in panel.silent])
        if panel.asking:
            asking = yield Judge(Case(situation, candidates))
        found = iter(silent), iter(asking)
        return tuple(next(found[verifier.asks]) for verifier in panel.verifiers)


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
        result=StepResult(chosen.camera, chosen.happened),
        replies=tuple(replies),
        finish=replies[chosen.group].finish,
        evidence=replace(evidence, tokens=spent, calls=calls),
        verdicts=tuple(verdicts),
    )
