"""The environments as `gymnasium.Env`; importing this module registers `render_agent/Question-v0` and
`render_agent/Benchmark-v0`.

>>> import gymnasium, render_agent, render_agent.environments.gym
>>> env = gymnasium.make("render_agent/Benchmark-v0", benchmark="rooms", scene="room00", max_turns=2)
>>> observation, info = env.reset(seed=1)
>>> observation["image"].shape
(480, 640, 3)
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

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


class SharedTexts:
    """The texts of an `AsyncVectorEnv` in shared memory. It reads observations once, and copies them after every step."""

    def __init__(self, memory: Any, num_envs: int) -> None:
        self._rows = np.frombuffer(memory.get_obj(), TEXT_ROW, num_envs)

    def __getitem__(self, index: int) -> str:
        row = self._rows[index]
        return bytes(row["utf8"][: row["length"]]).decode("utf-8", "surrogatepass")

    def __setitem__(self, index: int, text: str) -> None:
        utf8 = text.encode("utf-8", "surrogatepass")
        row = self._rows[index]
        row["utf8"][: len(utf8)] = np.frombuffer(utf8, np.uint8)
        row["length"] = len(utf8)

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self._rows)))

    def __deepcopy__(self, memo: Any) -> tuple[str, ...]:
        return tuple(self)


TEXT_ROW = np.dtype([("length", np.int64), ("utf8", np.uint8, 4 * MAX_TEXT_CHARS)])


@create_shared_memory.register(AnyText)
def _create_shared_texts(space: AnyText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array("B", n * TEXT_ROW.itemsize)


@read_from_shared_memory.register(AnyText)
def _read_shared_texts(space: AnyText, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory, n)


@write_to_shared_memory.register(AnyText)
def _write_shared_text(space: AnyText, index: int, value: str, shared_memory: Any) -> None:
    SharedTexts(shared_memory, index + 1)[index] = value


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
