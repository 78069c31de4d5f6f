"""Engine options of `--engine openai`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from render_agent.engines.remote.remote_options import Positive, RemoteOptions


@dataclass(frozen=True, slots=True)
class OpenAIOptions(RemoteOptions):
    """Options for requests to servers that speak OpenAI's protocol.

    Attributes:
        api: `chat` (chat completions) or `responses` (OpenAI's Responses API).
        max_tokens_field: Name of the field that limits the tokens of a reply; by default
            `max_completion_tokens` for OpenAI's own servers and if `reasoning_effort` is set.
        image_detail: `low` or `high`.
    """

    api: Literal["chat", "responses"] = "chat"
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    reasoning_effort: str | None = None
    top_p: Positive | None = None
    image_detail: str | None = None
