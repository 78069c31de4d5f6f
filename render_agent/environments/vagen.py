"""An environment for VAGEN: the methods of its `GymImageEnv`, over an `Environment`.

Register it in VAGEN's `env_registry.yaml`:

    RenderAgent: render_agent.environments.vagen.VagenEnvironment

and configure it with the arguments of `Environment` (with `scan`) or `Environment.from_benchmark`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from PIL.Image import Image

from render_agent.environments.environment import ChatMessage, Environment

PLACEHOLDER = "<image>"  # marks the place of an image in a text


class VagenEnvironment:
    """Episodes in VAGEN's interface: texts with placeholders for images."""

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        options = dict(env_config)
        if "scan" in options:
            self.env = Environment(**options)
        else:
            self.env = Environment.from_benchmark(options.pop("benchmark", "rooms"), **options)

    async def system_prompt(self) -> dict[str, Any]:
        """Return the instructions, which are the same in all episodes."""
        return {"obs_str": self.env.world.parts.prompt.instructions}

    async def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; the seed chooses the question."""
        observation, info = await self.env.areset(seed=seed)
        return _observation(observation["messages"]), info

    async def step(self, action_str: str) -> tuple[dict[str, Any], float, bool, dict[str, Any]]:
        """Reply to the current observation. `info["success"]` is True if the final answer has the full score."""
        observation, reward, terminated, truncated, info = await self.env.astep(action_str)
        is_over = terminated or truncated
        success = is_over and self.env.score == 1.0
        return (
            _observation(observation["messages"]),
            reward,
            is_over,
            {**info, "success": success},
        )

    async def close(self) -> None:
        """Free the renderer and finish the recorded run."""
        await asyncio.to_thread(self.env.close)


def _observation(messages: Sequence[ChatMessage]) -> dict[str, Any]:
    """Return the text of all messages except the system message, and the images for its placeholders."""
    texts: list[str] = []
    images: list[Image] = []
    for message in messages:
        for piece in message["content"] if message["role"] != "system" else ():
            if piece["type"] == "image":
                images.append(piece["image"])
            texts.append(PLACEHOLDER if piece["type"] == "image" else piece["text"])
    observation: dict[str, Any] = {"obs_str": "\n".join(texts)}
    return observation | ({"multi_modal_input": {PLACEHOLDER: images}} if images else {})
