"""The environments as `gymnasium.Env`; importing this module registers `render_agent/Question-v0` and `render_agent/Benchmark-v0`.

>>> import gymnasium, render_agent, render_agent.environments.gym
>>> env = gymnasium.make("render_agent/Benchmark-v0", benchmark="rooms", scene="room00", max_turns=2)
>>> observation, info = env.reset(seed=1)
>>> observation["image"].shape
(480, 640, 3)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from render_agent.environments.environment import Environment, Observation
from render_agent.options import VIEW_TYPES

MAX_COORDINATE = 1e6  # bound for coordinates in metres and focal lengths in pixels
MAX_TEXT_CHARS = 1 << 20  # limit on the text of an observation or a reply


class AnyText(spaces.Space[str]):
    """The space of all texts. Samples are replies that move the camera."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Return False, because a text is not an array."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a random move, as the JSON of a reply."""
        chance = self.np_random
        return json.dumps(
            {
                "rotation_angle_degrees": int(chance.integers(-180, 181)),
                "forward_meters": round(float(chance.uniform(-1, 2)), 1),
                "view": str(chance.choice(VIEW_TYPES)),
            }
        )

    def contains(self, x: Any) -> bool:
        """Return True for texts of at most MAX_TEXT_CHARS characters."""
        return isinstance(x, str) and len(x) <= MAX_TEXT_CHARS

    def __repr__(self) -> str:
        return "AnyText()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText)


class GymEnvironment(gymnasium.Env[dict[str, Any], str]):
    """An `Environment` with Gymnasium spaces. `info` also contains `messages` and `conversation`."""

    metadata = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["rgb_array"],
        "render_fps": 1,
    }

    def __init__(self, env: Environment, render_mode: str | None = "rgb_array") -> None:
        self.env = env
        self.render_mode = render_mode
        width, height = env.world.config.image_size
        self.action_space = AnyText()
        self.observation_space = spaces.Dict(
            {
                "text": AnyText(),
                "image": spaces.Box(0, 255, (height, width, 3), np.uint8),
                "pose": spaces.Box(-MAX_COORDINATE, MAX_COORDINATE, (5,), np.float64),
                "camera_to_world": spaces.Box(-MAX_COORDINATE, MAX_COORDINATE, (4, 4), np.float64),
                "intrinsics": spaces.Box(0, MAX_COORDINATE, (3, 3), np.float64),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start the next episode; see `Environment.reset`."""
        super().reset(seed=seed)
        observation, info = self.env.reset(seed=seed, options=options)
        return _split(observation, info)

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Reply to the current observation; see `Environment.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        arrays, info = _split(observation, info)
        return arrays, reward, terminated, truncated, info

    def render(self) -> Any:
        """Return the newest view, (H, W, 3) uint8."""
        return self.env.render()

    def close(self) -> None:
        """Free the renderer and finish the recorded run."""
        self.env.close()


def _split(
    observation: Observation, info: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the part of an observation that has a space, and `info` with the rest."""
    pieces = [piece for message in observation["messages"] for piece in message["content"]]
    text = "\n\n".join(piece["text"] for piece in pieces if piece["type"] == "text")
    chat = {"messages": observation["messages"], "conversation": observation["conversation"]}
    arrays = {name: value for name, value in observation.items() if name not in chat}
    return {"text": text, **arrays}, {**info, **chat}


def make_question(render_mode: str | None = "rgb_array", **options: Any) -> GymEnvironment:
    """Create the environment of one question; see `Environment`."""
    return GymEnvironment(Environment(**options), render_mode)


def make_benchmark(
    benchmark: str = "rooms", render_mode: str | None = "rgb_array", **options: Any
) -> GymEnvironment:
    """Create the environment of a benchmark; see `Environment.from_benchmark`."""
    return GymEnvironment(Environment.from_benchmark(benchmark, **options), render_mode)


for _name, _maker in {"Question": make_question, "Benchmark": make_benchmark}.items():
    if f"render_agent/{_name}-v0" not in gymnasium.registry:
        gymnasium.register(f"render_agent/{_name}-v0", f"{__name__}:{_maker.__name__}")
