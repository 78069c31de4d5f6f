"""Checks that a model's chat template has tool calls, before a run that needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.chat import image_piece, message, text
from render_agent.dialogue.parsing.tool_calls import call_text
from render_agent.dialogue.reply import ReplyForm
from render_agent.dialogue.tools_protocol import ToolsProtocol
from render_agent.errors import SetupError


def check_tools(
    name: str,
    processor: Any,
    # the tools of a run; None if its replies are plain text
    tools: Sequence[Mapping[str, Any]] | None,
) -> None:
    """Check that a chat template passes on tools, calls, their results, and images."""
    if tools is None:
        return
    protocol, call = ToolsProtocol(), call_text("look", {"view": "sentinel-view"})
    views = [text("sentinel-next"), image_piece("views/sentinel.png")]
    messages = [
        message("system", text("sentinel-system")),
        message("user", text("sentinel-user")),
        protocol.reply_message(f"sentinel-thought {call}", 0),
        *protocol.feedback_messages(call, 0, text("sentinel-result"), views, ReplyForm()),
    ]
    try:
        prompt = processor.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # noqa: BLE001 - templates raise anything
        prompt = ""
        reason = f"it raises {type(error).__name__}: {error}"
    parts = ["sentinel-user", "sentinel-view", "sentinel-result", "sentinel-next"]
    parts += [tool["function"]["name"] for tool in tools]
    parts += [token] if (token := getattr(processor, "image_token", None)) else []
    missing_parts = [part for part in parts if part not in prompt]
    if prompt:
        reason = f"it drops {', '.join(missing_parts)}"
    if missing_parts:
        raise SetupError(
            f"the chat template of {name} has no tool calls ({reason}). Use --reply-protocol json."
        )
