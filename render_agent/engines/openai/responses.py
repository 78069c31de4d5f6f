"""OpenAI's Responses API (`--engine-option api=responses`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from render_agent.dialogue.chat import Message, Piece
from render_agent.dialogue.parsing.tool_calls import call_text
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply, Request
from render_agent.engines.openai.chat_completions import OpenAIApi
from render_agent.engines.remote.chat_api import (
    Fields,
    Messages,
    make_reply,
    mapping,
    mappings,
    reply_text,
    token_count,
)
from render_agent.engines.remote.endpoints import Endpoint
from render_agent.engines.remote.exchanges import calls_of, split_exchanges, texts_of
from render_agent.util.safe_parse import parse_json

# Lets reasoning be sent back although the server stores nothing.
ENCRYPTED = "reasoning.encrypted_content"


class Responses(OpenAIApi):
    """The Responses API, without storage on the server."""

    name = "responses"
    path = "/v1/responses"
    messages_field = "input"

    def messages(self, request: Request, image: Callable[[str], str]) -> list[dict[str, Any]]:
        """Return the input items, with the results of function calls."""
        detail = self.options.image_detail or "auto"

        def item(piece: Piece) -> dict[str, Any]:
            if piece["type"] == "text":
                return {"type": "input_text", "text": piece["text"]}
            url = "data:image/png;base64," + image(piece["image"])
            return {"type": "input_image", "image_url": url, "detail": detail}

        def content(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
            return [*map(item, pieces)]

        items: list[dict[str, Any]] = []
        for exchange in split_exchanges(request.messages)[1]:
            sent = [] if exchange.reply is None else assistant_content(exchange.reply)
            ids = [item["call_id"] for item in sent if item.get("type") == "function_call"]
            items += sent
            items += [
                {"type": "function_call_output", "call_id": call_id, "output": content(pieces)}
                for call_id, pieces in zip(ids, exchange.results_of(len(ids)), strict=True)
            ]
            if exchange.shown and not ids:
                shown = content(exchange.shown)
                items.append({"type": "message", "role": "user", "content": shown})
        return items

    def fields(
        self, request: Request, samples: int, seed: int, endpoint: Endpoint
    ) -> dict[str, Any]:
        effort = self.options.reasoning_effort
        fields: dict[str, Any] = {
            "instructions": split_exchanges(request.messages)[0] or None,
            "max_output_tokens": request.token_limit,
            "temperature": request.temperature,
            "seed": seed,
            "top_p": self.options.top_p,
            "store": False,
            "include": [ENCRYPTED],
            "reasoning": {"effort": effort} if effort else None,
        }
        if request.schema is not None:
            form = {"type": "json_schema", "name": "reply", "schema": request.schema}
            fields["text"] = {"format": {**form, "strict": False}}
        if request.tools is not None:
            fields["tools"] = [
                {"type": "function", **tool["function"], "strict": False} for tool in request.tools
            ]
            fields["parallel_tool_calls"] = False  # a turn makes one call
        return self.options.fields(fields)

    async def send(self, client: Any, messages: Messages, fields: Fields) -> str:
        raw = await client.responses.with_raw_response.create(
            model=self.model, input=messages, extra_body=fields
        )
        return str(raw.text)

    def read(self, body: Any, request: Request) -> Reply | None:
        if not isinstance(mapping(body).get("output"), list):
            return None
        output = mappings(body["output"])
        texts, refusals, thoughts, calls = [], [], [], []
        for item in output:
            content = mappings(item.get("content"))
            if item.get("type") == "message":
                texts += [str(part["text"]) for part in content if part.get("text")]
                refusals += [str(part["refusal"]) for part in content if part.get("refusal")]
            elif item.get("type") == "reasoning":
                content_parts = mappings(item.get("summary")) + content
                thoughts += [str(part.get("text") or "") for part in content_parts]
            elif item.get("type") == "function_call":
                calls.append(call_text(str(item.get("name")), item.get("arguments") or {}))
        usage = mapping(body.get("usage"))
        of_prompt = mapping(usage.get("input_tokens_details"))
        tokens = Tokens(
            token_count(usage.get("input_tokens")),
            token_count(usage.get("output_tokens")),
            token_count(of_prompt.get("cached_tokens")),
            token_count(mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
            token_count(of_prompt.get("cache_write_tokens")),
        )
        return make_reply(
            [reply_text("".join(texts) or "".join(refusals), calls, "\n".join(thoughts))],
            [mapping(body.get("incomplete_details")).get("reason") or body.get("status")],
            tokens,
            blocks=[tuple(output)],
            is_filtered=bool(refusals),
        )


def assistant_content(reply: Message) -> list[dict[str, Any]]:
    """Return the items of a reply: as received, or text and calls.

    The API rejects empty messages, calls without an object of arguments, and thinking that one of these followed.
    """
    items: list[dict[str, Any]] = []
    thoughts: list[dict[str, Any]] = []
    for item in reply.get("blocks", ()):
        if item.get("type") == "reasoning":
            thoughts.append(item)
            continue
        if _is_complete(item):
            items += [*thoughts, item]
        thoughts = []
    items += thoughts
    if not any(item.get("type") in ("message", "function_call") for item in items):
        items += [{"role": "assistant", "content": text} for text in texts_of(reply)]
        items += [
            {"type": "function_call", "call_id": call_id, "name": name}
            | {"arguments": json.dumps(arguments, ensure_ascii=False)}
            for call_id, name, arguments in calls_of(reply)
        ]
    return items


def _is_complete(item: Mapping[str, Any]) -> bool:
    """True if the API accepts an item of its own reply back."""
    if item.get("type") == "message":
        return bool(item.get("content"))
    if item.get("type") != "function_call":
        return isinstance(item.get("type"), str)
    try:
        arguments = parse_json(item.get("arguments") or "")
    except (TypeError, ValueError):
        return False
    names = (item.get("call_id"), item.get("name"))
    return isinstance(arguments, dict) and all(isinstance(n, str) and n for n in names)
