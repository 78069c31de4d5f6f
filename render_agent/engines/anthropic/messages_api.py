"""Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.dialogue.chat import Message, Piece
from render_agent.dialogue.parsing.tool_calls import call_text
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply, Request
from render_agent.engines.remote.chat_api import (
    ChatApi,
    Fields,
    Messages,
    Omittable,
    RemoteOptions,
    job_field,
    make_reply,
    mapping,
    mappings,
    reply_text,
    token_count,
)
from render_agent.engines.remote.endpoints import PLACEHOLDER_KEY, Endpoint, Service
from render_agent.engines.remote.exchanges import calls_of, functions, split_exchanges, texts_of
from render_agent.engines.remote.http_client import sdk_client
from render_agent.engines.remote.make_remote import (
    RemoteMaker,
    read_remote_options,
    required_model,
)
from render_agent.engines.remote.quirks import supported_schema
from render_agent.engines.remote.response_bodies import parse_body
from render_agent.errors import UsageError
from render_agent.options import RunConfig

MIN_THINKING_TOKENS = 1024  # smallest budget that the API accepts
MAX_PAUSES = 4  # continuations of a paused reply
CACHE = {"cache_control": {"type": "ephemeral"}}


@dataclass(frozen=True, slots=True)
class AnthropicOptions(RemoteOptions):
    """Options for the Messages API, which current models accept without a temperature."""

    omit: tuple[Omittable, ...] = ("temperature",)


class MessagesApi(ChatApi):
    """The Messages API."""

    name = "anthropic"
    service = Service(
        "anthropic",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        "ANTHROPIC_BASE_URL",
        key_header="x-api-key",
    )

    def connect(self, endpoint: Endpoint) -> Any:
        import anthropic

        key = endpoint.headers.get(self.service.key_header, PLACEHOLDER_KEY)
        return sdk_client(anthropic, anthropic.AsyncAnthropic, key, endpoint, self.options)

    def messages(self, request: Request, image: Callable[[str], str]) -> list[dict[str, Any]]:
        """Return the messages, with the results of tool calls and a cache breakpoint at the end."""

        def block(piece: Piece) -> dict[str, Any]:
            if piece["type"] == "text":
                return {"type": "text", "text": piece["text"]}
            source = {"type": "base64", "media_type": "image/png", "data": image(piece["image"])}
            return {"type": "image", "source": source}

        def content(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
            return [*map(block, pieces)]

        messages: list[dict[str, Any]] = []
        for exchange in split_exchanges(request.messages)[1]:
            ids: list[str] = []
            if exchange.reply is not None:
                blocks = assistant_content(exchange.reply)
                ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
                messages.append({"role": "assistant", "content": blocks})
            shown = [
                {"type": "tool_result", "tool_use_id": call_id, "content": content(pieces)}
                for call_id, pieces in zip(ids, exchange.results_of(len(ids)), strict=True)
            ] or content(exchange.shown)
            if shown:
                messages.append({"role": "user", "content": shown})
        if messages and messages[-1]["role"] == "user":
            messages[-1]["content"][-1].update(CACHE)
        return messages

    def fields(
        self, request: Request, samples: int, seed: int, endpoint: Endpoint
    ) -> dict[str, Any]:
        """Return the other fields of a request, with a cache breakpoint at the instructions."""
        system = split_exchanges(request.messages)[0]
        fields: dict[str, Any] = {
            "max_tokens": request.token_limit,
            "temperature": request.temperature,
            "seed": seed,
            "system": [{"type": "text", "text": system, **CACHE}] if system else None,
            "thinking": self._thinking(request.thinking_budget),
        }
        if request.schema is not None:
            schema = supported_schema(request.schema, self)
            fields["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if request.tools is not None:
            fields["tools"] = functions(request.tools, "input_schema")
            # A turn makes one call; further ones would be ignored.
            fields["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        return dict(self.options.fields(fields))

    def _thinking(self, budget: int | None) -> dict[str, Any] | None:
        if self.thinking == "off":
            return {"type": "disabled"}
        if budget:
            return {"type": "enabled", "budget_tokens": budget}
        return {"type": "adaptive"} if self.thinking == "on" else None

    async def send(self, client: Any, messages: Messages, fields: Fields) -> str:
        """Send a request, continue a reply that the server paused, and return the body of the response."""
        earlier: list[dict[str, Any]] = []
        usages = []
        for _ in range(1 + MAX_PAUSES):
            paused = [{"role": "assistant", "content": earlier}] if earlier else []
            raw = await client.messages.with_raw_response.create(
                model=self.model,
                messages=[*messages, *paused],
                max_tokens=fields["max_tokens"],
                extra_body={k: v for k, v in fields.items() if k != "max_tokens"},
            )
            text = str(raw.http_response.text)
            body = mapping(parse_body(text))
            usages.append(body.get("usage"))
            content = [*earlier, *mappings(body.get("content"))]
            if body.get("stop_reason") != "pause_turn" or content == earlier:
                break
            earlier = content
        return json.dumps({**body, "content": content, "usage": usages}) if earlier else text

    def job_request(self, key: str, messages: Messages, fields: Fields) -> dict[str, Any]:
        return {"custom_id": key, "params": {"model": self.model, "messages": messages, **fields}}

    async def submit_job(self, client: Any, requests: Sequence[str]) -> str:
        batch = await client.messages.batches.create(requests=[*map(json.loads, requests)])
        return job_field(batch, "id")

    async def poll_job(self, client: Any, job: str) -> tuple[str, str | None]:
        batch = await client.messages.batches.retrieve(job)
        status = job_field(batch, "processing_status")
        if status != "ended":
            return status, None
        raw = await client.messages.batches.with_raw_response.results(job)
        return status, raw.http_response.text

    def job_result(self, line: Any) -> tuple[Any, int, Any]:
        result = line["result"]
        fault = {"error": {"message": f"the request in the batch is {result['type']}"}}
        return line["custom_id"], 200, result.get("message") or result.get("error") or fault

    def read(self, body: Any, request: Request) -> Reply | None:
        if mapping(body).get("type") != "message" or not isinstance(body.get("content"), list):
            return None
        content = mappings(body["content"])
        usages = mappings(body.get("usage")) or mappings([body.get("usage")])  # of a paused reply
        parts: dict[str, list[str]] = {"text": [], "thinking": []}
        calls = []
        for block in content:
            kind = str(block.get("type"))
            if kind == "tool_use":
                calls.append(call_text(str(block.get("name")), block.get("input") or {}))
            elif kind in parts:
                parts[kind].append(str(block.get(kind) or ""))
        return make_reply(
            [reply_text("".join(parts["text"]), calls, "\n".join(parts["thinking"]))],
            [body.get("stop_reason")],
            Tokens.total(map(_tokens, usages)),
            blocks=[tuple(content) if any(b.get("type") != "text" for b in content) else ()],
        )


def assistant_content(reply: Message) -> list[dict[str, Any]]:
    """Return the content of an assistant message: the blocks as received, or text and calls.

    The API rejects empty texts, calls without an object as input, and thoughts without a signature, which were cut off.
    A message must not end with a thought.
    """
    blocks = [*filter(_is_complete, reply.get("blocks", ()))]
    if not any(block.get("type") in ("text", "tool_use") for block in blocks):
        blocks += [{"type": "text", "text": text} for text in texts_of(reply)]
        blocks += [
            {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            for call_id, name, arguments in calls_of(reply)
        ]
    return blocks


def _is_complete(block: Mapping[str, Any]) -> bool:
    """True if the API accepts a block of its own reply back."""
    match block:
        case {"type": "text", "text": str(text)}:
            return bool(text.strip())
        case {"type": "thinking"}:
            return bool(block.get("signature"))
        case {"type": "tool_use"}:
            return isinstance(block.get("input"), dict) and isinstance(block.get("id"), str)
    return block.get("type") != "text" and isinstance(block.get("type"), str)


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    """Return the token counts of a message; the API counts cached tokens apart."""
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    prompt = [token_count(usage.get(name)) for name in names]
    thinking_tokens = mapping(usage.get("output_tokens_details")).get("thinking_tokens")
    output_tokens = token_count(usage.get("output_tokens"))
    return Tokens(sum(prompt), output_tokens, prompt[2], token_count(thinking_tokens), prompt[1])


class Anthropic(RemoteMaker):
    """Anthropic's Messages API."""

    def open_api(self, config: RunConfig) -> MessagesApi:
        """Return the Messages API. Raises UsageError also for a thinking budget that it does not accept."""
        options = read_remote_options(config, "anthropic", AnthropicOptions)
        budget = config.thinking_budget
        if budget and budget < MIN_THINKING_TOKENS:
            raise UsageError(
                f"--thinking-budget {budget} is too small for --engine anthropic. Pass at least {MIN_THINKING_TOKENS}."
            )
        return MessagesApi(required_model(config), options, config.thinking)


ANTHROPIC = Anthropic()
