"""The agents that choose among moves: by verifiers, or by showing the model where all of them lead.

Whether a question is answered now is said by its first reply that can be read, as it would be alone;
verifiers score where a move leads, not answers. So an agent whose verifier is random explores as `single`
does, and a difference between two verifiers is one of moves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from render_agent.agent_plan import AgentPlan
from render_agent.agents.proposals import as_alone, proposals
from render_agent.agents.seam import Ask, Draw, Judge, Steps, Taken
from render_agent.agents.seeds import turn_seed
from render_agent.chat import assistant
from render_agent.choose.deciding import fused, judgements
from render_agent.choose.seam import Case, FloatArray, Panel, Situation, Verdict
from render_agent.engines.seam import Reply, Request
from render_agent.look import Look
from render_agent.prompt import Prompt
from render_agent.respond import Response
from render_agent.state import Candidate, Evidence, QuestionState, Tokens

SHOWN_ALL = "You are shown, too, where your other moves would have led; your camera is not there."


class Foreseeing(Protocol):
    """Draws what candidates would be shown next; called by the thread that draws."""

    def foresee(
        self, state: QuestionState, look: Look, candidates: Sequence[Candidate]
    ) -> tuple[list[Candidate], list[Future[None]]]:
        """Return the candidates with their views, and for each picture when it is on disk."""
        ...


@dataclass(frozen=True)
class Choosing:
    """Chooses the move of every turn among those of several replies.

    name: as `--agent` has it. foreseeing: draws where they lead. seed: of the run.
    """

    name: str
    plan: AgentPlan
    panel: Panel
    prompt: Prompt
    foreseeing: Foreseeing
    seed: int

    def decide(self, situation: Situation, request: Request) -> Steps:
        """Ask for the candidates, draw and score them as the plan has it, and take one."""
        replies: list[Reply] = yield Ask((replace(request, samples=self.plan.samples),))
        candidates = proposals(situation, replies, self.prompt.on_request)
        alone = as_alone(situation, candidates)
        evidence = Evidence(self.name, tuple(candidates), alone.number)
        moving = [candidate for candidate in candidates if candidate.goes_on]
        if situation.last or not alone.goes_on or len(moving) < 2:
            return taken(alone, replies, evidence)
        written: list[Future[None]] = []
        if self.plan.renders:
            moving, written = yield self._drawing(situation, moving)
        if self.plan.kind == "show":
            return _all_shown(replies, _with(evidence, moving), written)
        if self.plan.depth > 1 and situation.turn + 2 < situation.state.max_turns:
            further: list[Reply] = yield Ask(self._further(situation, request, moving))
            second = self._second(situation, further, moving, len(candidates))
            moving, later = yield self._drawing(situation, [*moving, *second])
            replies, written = [*replies, *further], [*written, *later]
        verdicts = yield from self._verdicts(situation, moving)
        values = fused(self.panel, verdicts)
        best = alone if values is None else _best(moving, values)
        evidence = replace(
            _with(evidence, moving),
            chosen=best.number,
            weighed=tuple(candidate.number for candidate in moving),
            judgements=judgements(self.panel, verdicts),
            fused=() if values is None else tuple(map(float, values)),
        )
        return taken(best, replies, evidence, verdicts, written)

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the one dialogue."""
        return (question_id,)

    def _drawing(self, situation: Situation, candidates: Sequence[Candidate]) -> Draw:
        state, look = situation.state, situation.look
        return Draw(partial(self.foreseeing.foresee, state, look, tuple(candidates)))

    def _verdicts(
        self, situation: Situation, candidates: Sequence[Candidate]
    ) -> Generator[Draw | Judge, Any, list[Verdict]]:
        """Get a verdict of every verifier, in their order."""
        given, panel = tuple(candidates), self.panel
        silent: list[Verdict] = []
        asking: list[Verdict] = []
        if panel.silent:
            silent = yield Draw(lambda: [v.score(situation, given) for v in panel.silent])
        if panel.asking:
            asking = yield Judge(Case(situation, given))
        told = iter(silent), iter(asking)
        return [next(told[verifier.asks]) for verifier in panel.verifiers]

    def _further(
        self, situation: Situation, request: Request, candidates: Sequence[Candidate]
    ) -> tuple[Request, ...]:
        """Return what is asked once each candidate was carried out, in a dialogue of its own."""
        turn = situation.turn + 1
        asked = []
        for candidate in candidates:
            assert candidate.view is not None, "it was drawn"
            name = f"{request.question_id} turn {turn} candidate {candidate.number}"
            views = (candidate.view,)
            messages = self.prompt.following(turn, candidate.happened, views, candidate.camera)
            asked.append(
                replace(
                    request,
                    question_id=name,
                    about=situation.state.id,
                    turn=turn,
                    messages=[*request.messages, assistant(candidate.reply), *messages],
                    views=(*request.views, *views),
                    seed=turn_seed(self.seed, name, turn),
                    samples=1,
                )
            )
        return tuple(asked)

    def _second(
        self,
        situation: Situation,
        replies: Sequence[Reply],
        parents: Sequence[Candidate],
        first: int,
    ) -> list[Candidate]:
        """Return the second moves, numbered from `first`; those that end or cannot be read lead nowhere."""
        found: list[Candidate] = []
        for parent, reply in zip(parents, replies, strict=True):
            there = replace(situation, look=replace(situation.look, camera=parent.camera))
            (move,) = proposals(there, [reply], self.prompt.on_request)
            number = first + len(found)
            if move.goes_on:
                group = parent.group
                found.append(replace(move, number=number, group=group, follows=parent.number))
        return found


def taken(
    chosen: Candidate,
    replies: Sequence[Reply],
    evidence: Evidence,
    verdicts: Sequence[Verdict] = (),
    written: Sequence[Future[None]] = (),
) -> Taken:
    """Return a turn in which a candidate was chosen, with what choosing took."""
    own = replies[0]
    calls = sum(1 / reply.batch_size for reply in replies) - 1 / own.batch_size
    spent = Tokens(
        sum(verdict.tokens.prompt for verdict in verdicts),
        sum(verdict.tokens.reply for verdict in verdicts),
        sum(verdict.tokens.cached for verdict in verdicts),
    )
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


def _with(evidence: Evidence, candidates: Sequence[Candidate]) -> Evidence:
    """Return evidence with some candidates as they are now, and those that are new."""
    known = {candidate.number: candidate for candidate in evidence.candidates}
    known |= {candidate.number: candidate for candidate in candidates}
    return replace(evidence, candidates=tuple(known[number] for number in sorted(known)))


def _best(candidates: Sequence[Candidate], values: FloatArray) -> Candidate:
    """Return the move of this turn that leads to the highest score, at once or with the move after it."""
    leads = {candidate.number: candidate for candidate in candidates if candidate.follows is None}
    highest = dict.fromkeys(leads, -float("inf"))
    for candidate, value in zip(candidates, values, strict=True):
        first = candidate.number if candidate.follows is None else candidate.follows
        highest[first] = max(highest[first], float(value))
    return leads[max(highest, key=lambda number: (highest[number], -number))]


def _all_shown(
    replies: Sequence[Reply], evidence: Evidence, written: Sequence[Future[None]]
) -> Taken:
    """Return a turn whose first move is made, and after which the model sees where all of them lead."""
    chosen = next(c for c in evidence.candidates if c.number == evidence.chosen)
    told = replace(chosen, happened=f"{chosen.happened} {SHOWN_ALL}")
    return taken(told, replies, evidence, written=written)
