"""A request as a server reads it: messages, pictures as data URLs, and the fields beside them."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL.Image import Image

from render_agent.dialogue.chat import Message
from render_agent.engines.base import Request
from render_agent.engines.openai.options import OpenAIOptions
from render_agent.engines.openai.server_compat import Dialect


def data_url(picture: Image) -> str:
    """Return a picture as a data URL; lossless, lightly compressed, as pictures are stored."""
    written = io.BytesIO()
    picture.save(written, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(written.getvalue()).decode("ascii")


def wire_messages(
    messages: Sequence[Message], url: Callable[[str], str], detail: str | None = None
) -> list[dict[str, Any]]:
    """Return messages as servers read them, pictures as data URLs.

    A single text becomes a plain string, which every server takes and none splits.
    """

    def piece(entry: Mapping[str, str]) -> dict[str, Any]:
        if entry["type"] != "image":
            return {"type": "text", "text": entry["text"]}
        image = {"url": url(entry["image"])}
        return {"type": "image_url", "image_url": image | ({"detail": detail} if detail else {})}

    written = []
    for message in messages:
        content = [piece(entry) for entry in message["content"]]
        alone = len(content) == 1 and content[0]["type"] == "text"
        written.append(
            {"role": message["role"], "content": content[0]["text"] if alone else content}
        )
    return written


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is asked of a server for one request: its messages, and how many samples from which seed on."""

    request: Request
    messages: Sequence[Mapping[str, Any]]
    samples: int
    seed: int

    def fields(self, dialect: Dialect, options: OpenAIOptions) -> dict[str, Any]:
        """Return all fields but the model and the messages, as the server's dialect has them."""
        request = self.request
        wanted: dict[str, Any] = {"temperature": request.temperature, "seed": self.seed}
        if self.samples > 1:
            wanted["n"] = self.samples
        for name in ("top_p", "reasoning_effort"):
            if (value := getattr(options, name)) is not None:
                wanted[name] = value
        if request.schema is not None and (form := dialect.response_format(request.schema)):
            wanted["response_format"] = form
        return {**dialect.fields(wanted, request.max_new_tokens), **options.extra_body}
