"""What agents that choose among candidates share: their drawing, their weighing, and what is taken."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from render_agent.agents.base import Draw, Judge, Taken
from render_agent.agents.feedback import Response
from render_agent.agents.verifiers.base import Case, FloatArray, Panel, Situation, Verdict
from render_agent.agents.verifiers.score_fusion import fused, judgements
from render_agent.dialogue.state import Candidate, Evidence, Tokens
from render_agent.engines.base import Reply
from render_agent.observation import Foreseeing


@dataclass(frozen=True, eq=False)
class Weighed:
    """Candidates that verifiers scored.

    verdicts: one a verifier. values: a fused score a candidate, (K,), None where none could tell.
    """

    candidates: tuple[Candidate, ...]
    verdicts: tuple[Verdict, ...]
    values: FloatArray | None


@dataclass(frozen=True)
class Weighing:
    """Draws and scores candidates.

    panel: the verifiers. foreseeing: draws where candidates lead.
    """

    panel: Panel
    foreseeing: Foreseeing

    def drawing(self, situation: Situation, candidates: Sequence[Candidate]) -> Draw:
        """Return the need for what the candidates would show, as `Foreseeing` returns it."""
        state, look = situation.state, situation.look
        return Draw(partial(self.foreseeing.foresee, state, look, tuple(candidates)))

    def weigh(
        self, situation: Situation, candidates: Sequence[Candidate]
    ) -> Generator[Draw | Judge, Any, Weighed]:
        """Get a verdict of every verifier, in their order, and fuse them."""
        given, panel = tuple(candidates), self.panel
        silent: list[Verdict] = []
        asking: list[Verdict] = []
        if panel.silent:
            silent = yield Draw(lambda: [v.score(situation, given) for v in panel.silent])
        if panel.asking:
            asking = yield Judge(Case(situation, given))
        told = iter(silent), iter(asking)
        verdicts = tuple(next(told[verifier.asks]) for verifier in panel.verifiers)
        return Weighed(given, verdicts, fused(panel, verdicts))

    def choose(
        self,
        situation: Situation,
        replies: Sequence[Reply],
        evidence: Evidence,
        candidates: Sequence[Candidate],
        best: Callable[[Sequence[Candidate], FloatArray], Candidate],
        written: Sequence[Future[None]],
    ) -> Generator[Draw | Judge, Any, Taken]:
        """Have candidates scored and take the `best`; where no verifier could tell, the one chosen so far."""
        weighed = yield from self.weigh(situation, candidates)
        if weighed.values is None:
            chosen = next(c for c in candidates if c.number == evidence.chosen)
        else:
            chosen = best(candidates, weighed.values)
        told = self.explained(evidence, weighed, chosen)
        return taken(chosen, replies, told, weighed.verdicts, written)

    def explained(self, evidence: Evidence, weighed: Weighed, chosen: Candidate) -> Evidence:
        """Return evidence with what was weighed and which candidate was chosen."""
        values = () if weighed.values is None else tuple(map(float, weighed.values))
        return replace(
            with_candidates(evidence, weighed.candidates),
            chosen=chosen.number,
            weighed=tuple(candidate.number for candidate in weighed.candidates),
            judgements=judgements(self.panel, weighed.verdicts),
            fused=values,
        )


def with_candidates(evidence: Evidence, candidates: Sequence[Candidate]) -> Evidence:
    """Return evidence with some candidates as they are now, and those that are new."""
    known = {candidate.number: candidate for candidate in evidence.candidates}
    known |= {candidate.number: candidate for candidate in candidates}
    return replace(evidence, candidates=tuple(known[number] for number in sorted(known)))


def taken(
    chosen: Candidate,
    replies: Sequence[Reply],
    evidence: Evidence,
    verdicts: Sequence[Verdict] = (),
    written: Sequence[Future[None]] = (),
) -> Taken:
    """Return a turn in which a candidate was chosen, with what choosing took.

    replies: those of the groups in their order, then all others that the turn took.
    """
    own = replies[0]
    calls = sum(1 / reply.batch_size for reply in replies) - 1 / own.batch_size
    spent = Tokens.total(verdict.tokens for verdict in verdicts)
    calls += sum(verdict.calls for verdict in verdicts)
    return Taken(
        reply=chosen.reply,
        action=chosen.action,
        response=Response(chosen.camera, chosen.happened),
        replies=tuple(replies),
        finish=replies[chosen.group].finish,
        evidence=replace(evidence, tokens=spent, calls=calls),
        verdicts=tuple(verdicts),
        written=tuple(written),
    )
