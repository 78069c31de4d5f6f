"""An environment for TRL's `GRPOTrainer(environment_factory=…)`, whose methods are the tools that the model calls.

    from render_agent.environments.trl import environment_factory

    trainer = GRPOTrainer(
        model, environment_factory=environment_factory("rooms", max_turns=6), train_dataset=dataset, …
    )

A dataset row may specify its question as `id`; otherwise episodes cycle through the questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from os import PathLike
from typing import Any, Unpack

from render_agent.api.keywords import RunOptions
from render_agent.dialogue.reply import ReplyField, ReplyForm, tool_fields
from render_agent.environments.environment import ChatMessage, Environment
from render_agent.environments.world import QuestionOrder, World

Blocks = list[dict[str, Any]]


class TrlEnvironment:
    """One episode at a time; TRL creates one instance per rollout. Every public method except `reset` is a tool."""

    def __init__(self, world: World, order: QuestionOrder) -> None:
        self._env = Environment.of_world(world, order)
        self._return = 0.0
        self._is_over = True

    def reset(self, **row: Any) -> Blocks:
        """Start the next episode.

        Args:
            **row: The row of the data set; `id` chooses the question.

        Returns:
            The instructions, the question and the first views, as blocks of text and images.
        """
        options = {"id": row["id"]} if row.get("id") is not None else None
        observation, _ = self._env.reset(options=options)
        self._return, self._is_over = 0.0, False
        return _blocks(observation["messages"])

    def answer(self, answer: str) -> Blocks:
        """Give the final answer to the question, which ends the episode.

        Args:
            answer: The letter of the correct option, a number, or a text.

        Returns:
            What happened.
        """
        return self._step(answer=answer, done=True)

    def get_reward(self) -> float:
        """Return the sum of the rewards of the episode."""
        return self._return

    def _step(self, **fields: Any) -> Blocks:
        if self._is_over:
            return [{"type": "text", "text": "The episode is over."}]
        observation, reward, terminated, truncated, _ = self._env.step(fields)
        self._return += reward
        self._is_over = terminated or truncated
        return _blocks(observation["messages"]) or [
            {"type": "text", "text": "The episode is over."}
        ]


def _method(tool: str) -> Callable[..., Blocks]:
    """Return a method whose parameters and docstring are those of a tool, as TRL reads them."""
    form = ReplyForm()
    meanings = {field.name: meaning for fields, meaning in form.meanings() for field in fields}
    types = {f.name: _type_of(f) for f in tool_fields(tool) if f.name in meanings}

    def method(self: TrlEnvironment, **fields: Any) -> Blocks:
        return self._step(**{name: value for name, value in fields.items() if value is not None})

    method.__name__, method.__qualname__ = tool, f"TrlEnvironment.{tool}"
    method.__annotations__ = {**types, "return": Blocks}
    parameters = [
        Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
        *(
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)
            for name, kind in types.items()
        ),
    ]
    method.__signature__ = Signature(parameters, return_annotation=Blocks)  # type: ignore[attr-defined]
    lines = "".join(f"\n    {name}: {meanings[name]}" for name in types)
    method.__doc__ = f"{form.wording(f'tools.{tool}')}\n\nArgs:{lines}\n\nReturns:\n    What happened, and the next view."
    return method


def _type_of(field: ReplyField) -> Any:
    if field.amount is not None:
        return float | None
    if field.is_flag:
        return bool | None
    return list[float] | None if field.name == "look_at" else str | None


for _tool in ("look", "move"):
    setattr(TrlEnvironment, _tool, _method(_tool))


def environment_factory(
    benchmark: str | PathLike[str] = "rooms",
    /,
    ids: Sequence[str] = (),
    *,
    rewards: Mapping[str, float] | None = None,
    record: str | PathLike[str] | None = None,
    **run_options: Unpack[RunOptions],
) -> Callable[[], TrlEnvironment]:
    """Return a factory for TRL, whose environments share the scenes and the questions; see
    `Environment.from_benchmark`.

    Raises:
        SetupError: A requirement of an option is missing.
        UsageError: An option is invalid or does not apply to environments.
    """
    options = {"reply_protocol": "tools", **run_options}
    world = World.of_benchmark(benchmark, ids, rewards, record, None, options)
    order = QuestionOrder(world.questions)
    return lambda: TrlEnvironment(world, order)


def _blocks(messages: Sequence[ChatMessage]) -> Blocks:
    """Return the texts and images of messages."""
    return [piece for message in messages for piece in message["content"]]
