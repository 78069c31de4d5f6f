"""`VectorEnvironment`: several concurrent episodes over shared scenes, rendered on all cores."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from render_agent.api.keywords import RunOptions
from render_agent.dialogue.question import Question
from render_agent.environments.environment import Environment, Observation
from render_agent.environments.world import QuestionOrder, World
from render_agent.errors import UsageError

Steps = tuple[
    list[Observation],
    NDArray[np.float64],
    NDArray[np.bool_],
    NDArray[np.bool_],
    list[dict[str, Any]],
]


class VectorEnvironment:
    """Concurrent episodes, in threads, that share the scenes, the renderer and its caches.

    All questions are asked once before any is asked again. As in Gymnasium (`NEXT_STEP`), the step after the end of an
    episode ignores the reply and starts the next episode.

    Args:
        num_envs: Number of episodes.
        benchmark: As in `--benchmark`.
        ids: Ids of the questions; by default, all that the other options select.
        rewards: As in `Environment`.
        record: As in `Environment`.
        model: As in `Environment`.
        **run_options: Other options of a run.

    Raises:
        SetupError: A requirement of an option is missing.
        UsageError: An option is invalid or does not apply to environments.

    >>> import render_agent
    >>> with render_agent.VectorEnvironment(4, "rooms", limit=8, max_turns=2) as envs:
    ...     observations, infos = envs.reset(seed=0)
    ...     look = ['{"rotation_angle_degrees": 90}'] * 4
    ...     observations, rewards, terminated, truncated, infos = envs.step(look)
    >>> len(observations), rewards.shape
    (4, (4,))
    """

    def __init__(
        self,
        num_envs: int,
        benchmark: str | PathLike[str] = "rooms",
        /,
        ids: Sequence[str] = (),
        *,
        rewards: Mapping[str, float] | None = None,
        record: str | PathLike[str] | None = None,
        model: str | None = None,
        **run_options: Unpack[RunOptions],
    ) -> None:
        if num_envs < 1:
            raise UsageError(f"num_envs must be at least 1, not {num_envs}")
        self.world = World.of_benchmark(benchmark, ids, rewards, record, model, run_options)
        self.num_envs = num_envs
        self._order = QuestionOrder(self.world.questions)
        self.envs = [Environment.of_world(self.world, self._order) for _ in range(num_envs)]
        self._over = np.zeros(num_envs, bool)
        threads = min(num_envs, os.cpu_count() or 1) if self.world.is_parallel else 1
        self._pool = ThreadPoolExecutor(threads, "environment")

    def reset(self, *, seed: int | None = None) -> tuple[list[Observation], list[dict[str, Any]]]:
        """Start an episode in every environment.

        Args:
            seed: Shuffles the questions from now on; None keeps the current order.

        Returns:
            The first observation and `info` of every environment.

        Raises:
            SceneError: A scan cannot be read.
            RenderError: A scan cannot be rendered.
            UsageError: As in `Environment.reset`.
        """
        self.world.require_open()
        if seed is not None:
            self._order = QuestionOrder(self.world.questions, seed)
        self._over[:] = False
        results = [*self._pool.map(Environment.start, self.envs, self._next(self.num_envs))]
        return [observation for observation, _ in results], [info for _, info in results]

    def step(self, replies: Sequence[str | Mapping[str, Any] | None]) -> Steps:
        """Reply in every environment.

        Args:
            replies: One reply per environment, as in `Environment.step`; ignored for episodes that are over.

        Returns:
            The results of `Environment.step`, collected: observations, rewards (n,), terminated (n,), truncated (n,)
            and infos.

        Raises:
            RenderError: A view cannot be rendered.
            SceneError: The scan of the next episode cannot be read.
            UsageError: A reply is missing; or as in `Environment.step`.
        """
        self.world.require_open()
        if len(replies) != self.num_envs:
            raise UsageError(
                f"expected one reply for each of {self.num_envs} environments, not {len(replies)}"
            )
        for number, (over, reply) in enumerate(zip(self._over, replies, strict=True)):
            if reply is None and not over:
                raise UsageError(f"there is no reply for environment {number}, whose episode runs")
        # Chosen here rather than in the threads, so that the same replies always lead to the same episodes.
        questions = self._next(int(self._over.sum()))
        jobs = [
            partial(_restart, env, questions.pop(0))
            if over
            else partial(env.step, cast("str | Mapping[str, Any]", reply))
            for env, over, reply in zip(self.envs, self._over, replies, strict=True)
        ]
        results = [*self._pool.map(lambda job: job(), jobs)]
        observations, rewards, terminated, truncated, infos = map(list, zip(*results, strict=True))
        ended = np.array(terminated, bool), np.array(truncated, bool)
        self._over = ended[0] | ended[1]
        return observations, np.array(rewards, float), *ended, infos

    async def areset(
        self, *, seed: int | None = None
    ) -> tuple[list[Observation], list[dict[str, Any]]]:
        """Run `reset` in a thread."""
        return await asyncio.to_thread(self.reset, seed=seed)

    async def astep(self, replies: Sequence[str | Mapping[str, Any] | None]) -> Steps:
        """Run `step` in a thread."""
        return await asyncio.to_thread(self.step, replies)

    def close(self) -> None:
        """Stop the threads, free the renderer and finish the recorded run."""
        self._pool.shutdown()
        for env in self.envs:
            env.leave()
        self.world.close()

    def __enter__(self) -> VectorEnvironment:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _next(self, number: int) -> list[Question]:
        return [self._order.next() for _ in range(number)]


def _restart(
    env: Environment, question: Question
) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
    observation, info = env.start(question)
    return observation, 0.0, False, False, info
