"""Episodes as an OpenEnv server.

    # server.py, for `uvicorn server:app`
    from render_agent.environments.openenv import make_app

    app = make_app("rooms", max_turns=6)

Every session (a WebSocket) plays its own episodes over the same scenes. Tested with OpenEnv 0.3, 0.4 and 0.10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal, Unpack

from openenv.core import env_server

from render_agent.api.keywords import RunOptions
from render_agent.engines.openai.chat_completions import wire_messages
from render_agent.engines.remote.chat_api import png_base64
from render_agent.environments.environment import Environment, Observation
from render_agent.environments.world import QuestionOrder, World


class ReplyAction(env_server.Action):
    """The arguments of `Environment.step`."""

    reply: str | dict[str, Any]
    finish: Literal["stop", "length"] = "stop"


class ChatObservation(env_server.Observation):
    """The messages since the last reply in the format of chat completions, with PNG data URLs, and `info`."""

    messages: list[dict[str, Any]]
    info: dict[str, Any]


class OpenEnvEnvironment(env_server.Environment[ReplyAction, ChatObservation, env_server.State]):
    """The episodes of a session."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, world: World, order: QuestionOrder) -> None:
        super().__init__()
        self._env = Environment.of_world(world, order)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> ChatObservation:
        """Start the next episode; the options are those of `Environment.reset`."""
        observation, info = self._env.reset(seed=seed, options=options)
        return _observation(observation, info)

    def step(
        self, action: ReplyAction, timeout_s: float | None = None, **_: Any
    ) -> ChatObservation:
        step = self._env.step(action.reply, finish=action.finish)
        observation, reward, terminated, truncated, info = step
        return _observation(observation, info, reward=reward, done=terminated or truncated)

    @property
    def state(self) -> env_server.State:
        """Id of the question and number of turns."""
        state = self._env.state
        return env_server.State(episode_id=state.id, step_count=len(state.turns))

    def close(self) -> None:
        """Leave the episode; the scenes stay in memory for other sessions."""
        self._env.leave()


def make_app(
    benchmark: str | PathLike[str] = "rooms",
    /,
    ids: Sequence[str] = (),
    *,
    rewards: Mapping[str, float] | None = None,
    record: str | PathLike[str] | None = None,
    max_concurrent_envs: int = 64,
    **run_options: Unpack[RunOptions],
) -> Any:
    """Return the FastAPI application of a server; see `Environment.from_benchmark`."""
    world = World.of_benchmark(benchmark, ids, rewards, record, None, run_options)
    make = partial(OpenEnvEnvironment, world, QuestionOrder(world.questions))
    sessions = max_concurrent_envs if world.is_parallel else 1  # each has a thread
    app = env_server.create_app(make, ReplyAction, ChatObservation, "render_agent", sessions)
    app.router.on_shutdown.append(world.close)
    return app


def _observation(observation: Observation, info: dict[str, Any], **result: Any) -> ChatObservation:
    messages = wire_messages(observation["messages"], png_base64)
    return ChatObservation(messages=messages, info=info, **result)
