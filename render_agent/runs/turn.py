"""One turn of one question: observe, prompt, ask, parse, move, record.

A turn is a coroutine. It yields what it waits for (`Draw`, `Ask`, `Judge`), and the scheduler serves equal needs of all
questions in one batch.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from msgspec import structs

from render_agent.agents.agent import Agent, Ask, Draw, Need, Tools, probe_id, turn_seed
from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.answer import answer_form
from render_agent.dialogue.chat import Message
from render_agent.dialogue.evidence import Candidate, Evidence
from render_agent.dialogue.moves import Outcome, carry_out, describe
from render_agent.dialogue.probe import ProbePlan
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Phase, Turn
from render_agent.engines.engine import Engine, Reply, Request, within_bounds
from render_agent.errors import RenderAgentError
from render_agent.options import RunConfig
from render_agent.runs.log.writer import TurnLog
from render_agent.runs.probe import ask_beliefs
from render_agent.runs.scheduler import engine_faults
from render_agent.runs.turn_cost import TurnCost
from render_agent.scans.camera import Camera
from render_agent.views.free_views import unmade_views
from render_agent.views.provider import Observation

T = TypeVar("T")


@dataclass(eq=False)
class TurnTaker:
    """Takes the turns of a run's questions.

    Attributes:
        engine: Answers the requests.
        log: Records the turns.
        config: How replies are generated.
        agent: Chooses each turn's move among the replies.
        tools: The prompt, the views and the verifiers.
        probe: What the model is asked to believe after each turn, outside the dialogue; None for nothing.
    """

    engine: Engine
    log: TurnLog
    config: RunConfig
    agent: Agent
    tools: Tools
    probe: ProbePlan | None = None

    def take(
        self, state: QuestionState, phase: Phase, cost: TurnCost
    ) -> Generator[Need, Any, Turn]:
        """Take the next turn of a question and record it.

        Args:
            state: The question; it takes the turn once the turn is logged.
            phase: The phase of the run.
            cost: Receives the replies and verdicts of the turn as they come.

        Raises:
            RenderAgentError: A view, a reply or a verdict failed; the question takes no turn.
        """
        seen: Observation = yield Draw(partial(self.tools.views.observe, state))
        began = time.perf_counter()
        context = TurnContext(state, seen, self.log.pictures.get)

        messages = self._messages(state, seen)
        request = self._request(state, seen, messages)

        asked = yield from self._follow(self.agent.ask(self.tools, context, request), cost)
        replies = yield from self._follow(_ask(asked.requests), cost)

        candidates = read_candidates(context, replies, self.tools.prompt)
        choice = self.agent.choose(self.tools, context, candidates)
        evidence = yield from self._follow(choice, cost)
        chosen = candidates[0] if evidence is None else evidence.candidates[evidence.chosen]
        told = yield from self._told(context, chosen, evidence)

        turn = Turn(
            question_id=state.id,
            number=request.turn,
            phase=phase,
            views=seen.views,
            messages=messages,
            reply=chosen.reply,
            action=chosen.action,
            feedback=told,
            stood=seen.camera,
            camera=chosen.camera,
            outcome=chosen.outcome,
            tokens=cost.tokens,
            seconds=cost.seconds(seen.seconds, time.perf_counter() - began, replies[0]),
            batch_size=replies[0].batch_size,
            finish=replies[chosen.group].finish,
            events=(*cost.events, *asked.events),
            evidence=evidence
            and cost.added_to(replace(evidence, wordings=asked.wordings), replies[0]),
            scan=seen.scan,
        )
        turn = structs.replace(turn, sha256=self.log.pictures.written(turn.drawn))
        if self.probe is not None and self.probe.keys:
            probe = yield from ask_beliefs(self.probe, state, request, turn, self.config.seed)
            self.retire([probe_id(state.id, turn.number)])
            turn = structs.replace(turn, probe=probe)
        self.log.append(turn)
        state.take(turn)
        return turn

    def retire(self, dialogues: Iterable[str]) -> None:
        """Have the engine free what it keeps for dialogues that have ended."""
        for dialogue in dialogues:
            with engine_faults(self.engine):
                self.engine.retire(dialogue)

    @cached_property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema that replies are held to; None if they are free."""
        return None if self.config.no_guide else self.tools.prompt.schema

    def _messages(self, state: QuestionState, seen: Observation) -> tuple[Message, ...]:
        """Return the messages that are new in the next turn."""
        prompt = self.tools.prompt
        if not state.turns:
            return tuple(prompt.opening(state.question, seen.views, seen.camera, seen.told))
        last = state.turns[-1]
        return tuple(prompt.following(len(state.turns), last.feedback, seen.views, seen.camera))

    def _request(
        self, state: QuestionState, seen: Observation, messages: Sequence[Message]
    ) -> Request:
        turn = len(state.turns)
        return Request(
            question_id=state.id,
            turn=turn,
            messages=[*state.dialogue, *messages],
            picture=self.log.pictures.get,
            views=(*state.views, *seen.views),
            last=turn + 1 == state.max_turns,
            temperature=self.config.temperature,
            seed=turn_seed(self.config.seed, state.question.chance_id, turn),
            max_new_tokens=self.config.max_new_tokens,
            thinking_budget=self.config.thinking_budget,
            schema=self.schema,
        )

    def _follow(self, steps: Generator[Need, Any, T], cost: TurnCost) -> Generator[Need, Any, T]:
        """Serve the needs of an agent, and return its result.

        Side dialogues are retired once they are answered. RenderAgentError if a reply failed.
        """
        served: Any = None
        while True:
            try:
                need = steps.send(served)
            except StopIteration as end:
                result: T = end.value
                return result
            served = yield need
            if isinstance(need, Ask):
                served = [*map(within_bounds, served, need.requests)]
                asked = {request.about or request.question_id for request in need.requests}
                kept = {name for about in asked for name in self.agent.dialogues(about)}
                names = [request.question_id for request in need.requests]
                self.retire(name for name in names if name not in kept)
            parts = served if isinstance(served, list) else []
            cost.add(parts)
            if faults := [p.error for p in parts if isinstance(p, Reply) and p.error is not None]:
                raise RenderAgentError(faults[0])

    def _told(
        self, context: TurnContext, chosen: Candidate, evidence: Evidence | None
    ) -> Generator[Need, Any, str]:
        """Return what the model is told of its move, with the measurements that it asked for."""
        told, action = chosen.feedback, chosen.action
        if self.agent.shows_all and evidence and unmade_views(evidence, context.views):
            told = f"{told} {self.tools.prompt.wording('turn.other_moves')}"
        if isinstance(action, Action) and action.measure and not action.done:
            state, seen = context.state, context.observation
            measure = partial(self.tools.views.measure, state, seen, action.measure)
            told = f"{told} {yield Draw(measure)}"
        return told


def read_candidates(
    context: TurnContext, replies: Sequence[Reply], prompt: Prompt
) -> list[Candidate]:
    """Parse every sample of some replies and carry out its move; the samples of one reply are a group."""
    candidates: list[Candidate] = []
    for group, reply in enumerate(replies):
        for text in reply.samples:
            action = prompt.read(text, context.state.question)
            # which of several samples met the limit is not known: one that can be read did not
            cut_off = reply.finish == "length" and (
                len(reply.samples) == 1 or isinstance(action, Malformed)
            )
            told, camera, outcome = respond(context, action, prompt, cut_off=cut_off)
            number = len(candidates)
            candidates.append(Candidate(number, text, action, told, camera, outcome, group=group))
    return candidates


def respond(
    context: TurnContext, action: Action | Malformed, prompt: Prompt, *, cut_off: bool = False
) -> tuple[str, Camera, Outcome | None]:
    """Carry out an action; return what the model is told of it, the next pose, and the outcome of a move.

    Args:
        context: The turn, which the state has not taken yet.
        action: The parsed reply.
        prompt: Words the feedback.
        cut_off: Whether the reply ended at the token limit.
    """
    state, seen, say = context.state, context.observation, prompt.wording
    told = [say("feedback.cut_off")] if cut_off else []
    if isinstance(action, Malformed):
        told.append(say("feedback.unreadable", reason=action.reason))
        return " ".join(told), seen.camera, None
    told += map(_sentence, action.notes)
    if action.done and (action.answer is not None or state.answer is not None):
        told.append(say("feedback.done_without_moves" if action.moves else "feedback.done"))
        return " ".join(told), seen.camera, None
    if action.done:
        form = answer_form(state.question.wanted, state.question.options, say)
        told.append(say("feedback.done_without_answer", form=form))
    if seen.space is None:
        told.append(say("feedback.all_shown" if context.views else "feedback.nothing_shown"))
        return " ".join(told), seen.camera, None
    camera, outcome = carry_out(action, seen.camera, seen.space)
    told.append(_sentence(describe(action, seen.camera, camera, outcome, say)))
    shown = len({view.number for view in context.views})
    if isinstance(action.view, int) and action.view >= shown:
        told.append(say("feedback.no_such_view", view=action.view, last=shown - 1))
    if isinstance(action.view, str) and action.view not in prompt.on_request:
        kinds = ", ".join(prompt.on_request)
        told.append(say("feedback.no_such_kind", view=action.view, kinds=kinds))
    return " ".join(told), camera, outcome


def _sentence(words: str) -> str:
    first = words.split(" ", 1)[0]
    begun = words if "_" in first else words[:1].upper() + words[1:]  # a field keeps its spelling
    return begun if words.endswith((".", "!")) else begun + "."


def _ask(requests: tuple[Request, ...]) -> Generator[Need, Any, list[Reply]]:
    replies: list[Reply] = yield Ask(requests)
    return replies
