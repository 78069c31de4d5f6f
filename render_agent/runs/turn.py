"""One turn of one question: observe, prompt, ask, parse, move, record.

A turn is a coroutine that yields requests (`Draw`, `Barrier`, `Ask`, `Judge`). The scheduler serves requests of the same
kind from several questions in one batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from msgspec import structs

from render_agent.agents.agent import (
    SEPARATOR,
    AfterTurn,
    Agent,
    Ask,
    Draw,
    Need,
    Tools,
    turn_seed,
)
from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.answer import answer_form
from render_agent.dialogue.chat import Blocks, Message, with_blocks
from render_agent.dialogue.events import RESTATED
from render_agent.dialogue.moves import Outcome, apply_action, describe_outcome
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Candidate, Evidence, Phase, Reading, Restated, Turn
from render_agent.engines.engine import Engine, Reply, Request, limit_reply
from render_agent.errors import RenderAgentError
from render_agent.options import RunConfig
from render_agent.runs.cost.turn_cost import TurnCost
from render_agent.runs.log.writer import TurnLog
from render_agent.runs.scheduler import engine_faults
from render_agent.scans.camera import Camera
from render_agent.views.free_views import rejected_views
from render_agent.views.instruments import drifted_pose, pose_reading
from render_agent.views.provider import NextViews

T = TypeVar("T")


@dataclass(eq=False)
class TurnTaker:
    engine: Engine
    log: TurnLog
    config: RunConfig
    agent: Agent  # chooses the move of each turn among the replies
    tools: Tools  # the prompt, the views and the verifiers
    after_turn: Sequence[AfterTurn] = ()
    drift: float = 0.0
    """Error of the reported pose, per metre moved and per degree turned."""

    def take(
        self,
        state: QuestionState,
        phase: Phase,
        cost: TurnCost,
        admit: Callable[[Request], Iterable[Need]] = lambda request: (),
    ) -> Generator[Need, Any, Turn]:
        """Take the next turn of a question, log it, then update the state. `admit` may wait before the first request,
        or refuse it.
        """
        observation: NextViews = yield Draw(partial(self.tools.views.observe, state))
        start = time.perf_counter()
        context = TurnContext(state, observation, self.log.images.get)

        told_camera = drifted_pose(state, observation.camera, self.drift, self.config.seed)
        readings = [
            *filter(None, (observation.reading, pose_reading(told_camera, observation.camera)))
        ]
        messages = self._messages(state, observation, told_camera)
        request = self._request(state, observation, messages)
        preparing = time.perf_counter() - start
        yield from admit(request)
        start = time.perf_counter() - preparing  # without the wait

        plan = yield from self._follow(self.agent.ask(self.tools, context, request), cost)
        replies = yield from self._follow(_ask(plan.requests), cost)

        candidates = read_candidates(context, replies, self.tools.prompt)
        choice = self.agent.choose(self.tools, context, candidates)
        evidence = yield from self._follow(choice, cost)
        candidate = candidates[0] if evidence is None else evidence.candidates[evidence.chosen]
        feedback, reading = yield from self._feedback(context, candidate, evidence)
        if evidence is not None:
            evidence = cost.added_to(replace(evidence, wordings=plan.wordings), replies[0])
        blocks = _blocks_of(replies)[candidate.number]
        restated = None
        if self._lacks_answer(state, request, candidate, evidence):
            restated = yield from self._restate(state, request, candidate, blocks, feedback, cost)

        turn = Turn(
            question_id=state.id,
            number=request.turn,
            phase=phase,
            views=observation.views,
            messages=messages,
            reply=candidate.reply,
            action=candidate.action,
            feedback=feedback,
            camera_before=observation.camera,
            camera=candidate.camera,
            outcome=candidate.outcome,
            tokens=cost.tokens,
            seconds=cost.seconds(
                observation.seconds,
                time.perf_counter() - start - (restated.seconds if restated else 0.0),
                replies[0],
            ),
            batch_size=replies[0].batch_size,
            finish=replies[candidate.group].finish,
            events=(*cost.events, *plan.events, *([RESTATED] if restated else [])),
            evidence=evidence,
            scan=observation.scan,
            scan_files={**observation.scan_files},
            blocks=blocks,
            restated=restated,
            readings=tuple(filter(None, (*readings, reading))),
        )
        if state.question.answer_form == "pose":
            measure = partial(self.tools.views.target_errors, state, observation, turn)
            turn = structs.replace(turn, target_errors=(yield Draw(measure)))
        turn = structs.replace(turn, sha256=self.log.images.wait_for(turn.image_files))
        for ask in self.after_turn:
            turn, side_dialogue = yield from ask(state, request, turn)
            self.retire([side_dialogue])
        self.log.append(turn)
        state.take(turn)
        return turn

    def retire(self, dialogues: Iterable[str]) -> None:
        """Let the engine free the memory of finished dialogues."""
        for dialogue in dialogues:
            with engine_faults(self.engine):
                self.engine.retire(dialogue)

    def _messages(
        self, state: QuestionState, observation: NextViews, told_camera: Camera
    ) -> tuple[Message, ...]:
        prompt = self.tools.prompt
        if not state.turns:
            return tuple(
                prompt.opening(
                    state.question, observation.views, observation.camera, observation.scene_text
                )
            )
        last_turn = state.turns[-1]
        return tuple(
            prompt.following(
                len(state.turns),
                last_turn.feedback,
                observation.views,
                told_camera,
                last_turn.reply,
            )
        )

    def _request(
        self, state: QuestionState, observation: NextViews, messages: Sequence[Message]
    ) -> Request:
        turn, prompt = len(state.turns), self.tools.prompt
        return Request(
            dialogue_id=state.id,
            turn=turn,
            messages=prompt.window([*state.dialogue, *messages]),
            load_image=self.log.images.get,
            views=(*state.views, *observation.views),
            is_last_turn=turn + 1 == state.max_turns,
            temperature=self.config.temperature,
            seed=turn_seed(self.config.seed, state.question.seed_id, turn),
            max_new_tokens=self.config.max_new_tokens,
            thinking_budget=self.config.thinking_budget,
            schema=None if self.config.no_guide else prompt.schema(state.question),
            tools=prompt.tools(state.question),
        )

    def _lacks_answer(
        self,
        state: QuestionState,
        request: Request,
        candidate: Candidate,
        evidence: Evidence | None,
    ) -> bool:
        """Return True if the last turn gave no answer that could be read, and the answer is to be restated."""
        has_answer = candidate.action.answer is not None or (evidence and evidence.ballot)
        if state.question.answer_form == "pose":
            return False
        if self.config.no_restate or not request.is_last_turn or has_answer:
            return False
        # An earlier answer stands, unless the reply gave another one that could not be read.
        return state.answer is None or candidate.action.answer_text is not None

    def _restate(
        self,
        state: QuestionState,
        request: Request,
        candidate: Candidate,
        blocks: Blocks,
        feedback: str,
        cost: TurnCost,
    ) -> Generator[Need, Any, Restated]:
        """Ask for only the answer, in the same dialogue and without new views."""
        prompt, question = self.tools.prompt, state.question
        said = prompt.protocol.reply_message(candidate.reply, request.turn)
        messages = prompt.restating(request.turn, feedback, candidate.reply, question)
        name = f"{question.seed_id}{SEPARATOR}restate"
        request = replace(
            request,
            messages=[*request.messages, with_blocks(said, blocks), *messages],
            seed=turn_seed(self.config.seed, name, request.turn),
            schema=None
            if self.config.no_guide
            else prompt.protocol.answer_schema(prompt.form, question),
            tools=prompt.protocol.answer_tools(prompt.form, question),
            restates=True,
        )
        (reply,) = yield from self._follow(_ask((request,)), cost)
        action = prompt.parse_restated(reply.text, question, reply.finish)
        return Restated(
            messages=tuple(messages),
            reply=reply.text,
            answer=action.answer,
            answer_text=action.answer_text,
            finish=reply.finish,
            seconds=round(reply.seconds, 4),
            batch_size=reply.batch_size,
        )

    def _follow(self, steps: Generator[Need, Any, T], cost: TurnCost) -> Generator[Need, Any, T]:
        """Serve the requests of an agent and return its result. Side dialogues are retired once answered."""
        served_value: Any = None
        while True:
            try:
                need = steps.send(served_value)
            except StopIteration as end:
                result: T = end.value
                return result
            served_value = yield need
            if isinstance(need, Ask):
                served_value = [*map(limit_reply, served_value, need.requests)]
                questions = {request.question_id for request in need.requests}
                dialogue_ids = {
                    name for question_id in questions for name in self.agent.dialogues(question_id)
                }
                names = [request.dialogue_id for request in need.requests]
                self.retire(name for name in names if name not in dialogue_ids)
            parts = served_value if isinstance(served_value, list) else []
            cost.add(parts)
            for part in parts:
                if isinstance(part, Reply) and part.error is not None:
                    raise RenderAgentError(part.error) from part.cause

    def _feedback(
        self, context: TurnContext, candidate: Candidate, evidence: Evidence | None
    ) -> Generator[Need, Any, tuple[str, Reading | None]]:
        """Return the feedback for the model, with requested measurements, and their record if they can be wrong."""
        feedback, action, reading = candidate.feedback, candidate.action, None
        if self.agent.shows_all and evidence and rejected_views(evidence, context.views):
            feedback = f"{feedback} {self.tools.prompt.wording('turn.other_moves')}"
        if isinstance(action, Action) and action.measure and not action.done:
            state, observation = context.state, context.observation
            measure = partial(self.tools.views.measure, state, observation, action.measure)
            told, reading = yield Draw(measure)
            feedback = f"{feedback} {told}"
        return feedback, reading


def _blocks_of(replies: Sequence[Reply]) -> list[Blocks]:
    """Return the blocks of all samples, in the order of the candidates."""
    return [
        sample_blocks
        for reply in replies
        for sample_blocks in reply.blocks or ((),) * len(reply.samples)
    ]


def read_candidates(
    context: TurnContext, replies: Sequence[Reply], prompt: Prompt
) -> list[Candidate]:
    """Parse all samples of the replies and apply their moves. Samples of the same reply form a group."""
    candidates: list[Candidate] = []
    for group, reply in enumerate(replies):
        for text in reply.samples:
            action = prompt.parse_reply(text, context.state.question)
            # It is unknown which of several samples reached the limit, so readable ones count as complete.
            cut_off = reply.finish == "length" and (
                len(reply.samples) == 1 or isinstance(action, Malformed)
            )
            feedback, camera, outcome = respond(context, action, prompt, cut_off=cut_off)
            number = len(candidates)
            candidates.append(
                Candidate(number, text, action, feedback, camera, outcome, group=group)
            )
    return candidates


def respond(
    context: TurnContext, action: Action | Malformed, prompt: Prompt, *, cut_off: bool = False
) -> tuple[str, Camera, Outcome | None]:
    """Apply an action. Return the feedback for the model, the next camera, and the outcome of the move."""
    state, observation, say = context.state, context.observation, prompt.wording
    feedback = [say("feedback.cut_off")] if cut_off else []
    if isinstance(action, Malformed):
        feedback.append(say("feedback.unreadable", reason=action.reason))
        return " ".join(feedback), observation.camera, None
    feedback += map(_sentence, action.notes)
    if action.done and (
        action.answer is not None
        or state.answer is not None
        or state.question.answer_form == "pose"
    ):
        feedback.append(
            say("feedback.done_without_moves" if action.requests_move else "feedback.done")
        )
        return " ".join(feedback), observation.camera, None
    if action.done:
        question = state.question
        form = answer_form(question.answer_form, question.options, say, question.unit)
        feedback.append(say("feedback.done_without_answer", form=form))
    if observation.space is None:
        feedback.append(say("feedback.all_shown" if context.views else "feedback.nothing_shown"))
        return " ".join(feedback), observation.camera, None
    camera, outcome = apply_action(action, observation.camera, observation.space)
    if prompt.tells_outcome:
        description = describe_outcome(action, observation.camera, camera, outcome, say)
        feedback.append(_sentence(description))
    num_views = len({view.number for view in context.views})
    if isinstance(action.view, int) and action.view >= num_views:
        feedback.append(say("feedback.no_such_view", view=action.view, last=num_views - 1))
    if isinstance(action.view, str) and action.view not in prompt.requestable_kinds:
        kinds = ", ".join(prompt.requestable_kinds)
        feedback.append(say("feedback.no_such_kind", view=action.view, kinds=kinds))
    return " ".join(feedback), camera, outcome


def _sentence(words: str) -> str:
    first_word = words.split(" ", 1)[0]
    is_field_name = "_" in first_word  # field names keep their case
    sentence = words if is_field_name else words[:1].upper() + words[1:]
    return sentence if words.endswith((".", "!")) else sentence + "."


def _ask(requests: tuple[Request, ...]) -> Generator[Need, Any, list[Reply]]:
    replies: list[Reply] = yield Ask(requests)
    return replies
