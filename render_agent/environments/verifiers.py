"""Questions as an environment of `verifiers`: the agent plays episodes, whose observations are the user's turns.

`verifiers` finds an environment by the name of its module, so export the two classes from one of yours:

    # rooms.py, for `vf-eval rooms`
    from render_agent.environments.verifiers import EpisodeEnv, QuestionTaskset

    __all__ = ["EpisodeEnv", "QuestionTaskset"]

Tested with `verifiers` 0.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import verifiers.v1 as vf

from render_agent.engines.openai.chat_completions import wire_messages
from render_agent.engines.remote.chat_api import png_base64
from render_agent.environments.environment import Environment
from render_agent.environments.world import World


class QuestionTask(vf.Task[vf.TaskData]):
    """One question, by its id. Its text is part of the first observation; the ground truth is not in the task."""


class QuestionsConfig(vf.TasksetConfig):
    """Arguments of `Environment.from_benchmark`; `options` are those of a run."""

    benchmark: str = "rooms"
    rewards: dict[str, float] | None = None
    record: str | None = None
    options: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies defaults


class QuestionTaskset(vf.Taskset[QuestionTask, QuestionsConfig]):
    """The questions of a benchmark."""

    @cached_property
    def world(self) -> World:
        """The scenes and questions, which all episodes share."""
        config = self.config
        return World.of_benchmark(
            config.benchmark, (), config.rewards, config.record, None, config.options
        )

    def load(self) -> Iterator[QuestionTask]:
        """Yield a task per question."""
        for question in self.world.questions:
            yield QuestionTask(vf.TaskData(id=question.id, name=question.id), self.config.task)


class EpisodeConfig(vf.EnvConfig):
    """The agent is `player`: by default the plain chat loop, in a separate process."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())


class EpisodeEnv(vf.Env[EpisodeConfig]):
    """Plays an episode per task; the terms of the reward are the rewards of its trace."""

    async def run(self, task: QuestionTask, agents: vf.Agents) -> None:
        """Play an episode."""
        env = Environment.of_world(self.taskset.world)
        observation, info = await env.areset(options={"id": task.data.id})
        is_over = False
        async with agents.player.interaction(task) as interaction:
            while not is_over:
                segment = await interaction.turn(wire_messages(observation["messages"], png_base64))
                if segment.terminated:
                    break
                observation, _, terminated, truncated, info = await env.astep(
                    segment.last_reply,
                    finish="length" if interaction.trace.is_truncated else "stop",
                )
                is_over = terminated or truncated
        env.leave()
        for name, value in info["returns"].items():
            interaction.trace.record_reward(name, value)
