"""An environment for TRL's `GRPOTrainer(environment_factory=…)`, whose methods are the tools that the model calls.

    from render_agent.environments.trl import environment_factory

    trainer = GRPOTrainer(
        model, environment_factory=environment_factory("rooms", max_turns=6), train_dataset=dataset, …
    )

A dataset row may specify its question as `id`; otherwise episodes cycle through the questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Unpack

from render_agent.api.keywords import RunOptions
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

    def look(
        self,
        rotation_angle_degrees: float = 0,
        pitch_degrees: float = 0,
        look_at: list[float] | None = None,
        view: str | None = None,
    ) -> Blocks:
        """Turn the camera on the spot and show the next view.

        Args:
            rotation_angle_degrees: Degrees to turn, positive to the left.
            pitch_degrees: Degrees to tilt, positive up.
            look_at: A point [x, y, z] in metres to look at instead.
            view: The view to show: ego, top or around.

        Returns:
            What happened, and the next view.
        """
        return self._step(
            rotation_angle_degrees=rotation_angle_degrees,
            pitch_degrees=pitch_degrees,
            look_at=look_at,
            view=view,
        )

    def move(
        self,
        forward_meters: float = 0,
        left_meters: float = 0,
        z_delta_meters: float = 0,
        rotation_angle_degrees: float = 0,
    ) -> Blocks:
        """Turn, then walk, and show the next view.

        Args:
            forward_meters: Metres to walk forward.
            left_meters: Metres to walk to the left.
            z_delta_meters: Metres to rise.
            rotation_angle_degrees: Degrees to turn first, positive to the left.

        Returns:
            What happened, and the next view.
        """
        return self._step(
            forward_meters=forward_meters,
            left_meters=left_meters,
            z_delta_meters=z_delta_meters,
            rotation_angle_degrees=rotation_angle_degrees,
        )

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
