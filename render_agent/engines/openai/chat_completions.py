"""OpenAI's chat completions, which most servers speak."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from render_agent.dialogue.chat import Blocks, Message
from render_agent.dialogue.parsing.tool_calls import call_text, decode_arguments
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply, Request
from render_agent.engines.remote.chat_api import (
    ChatApi,
    Fields,
    Messages,
    Positive,
    RemoteOptions,
    job_field,
    make_reply,
    mapping,
    mappings,
    reply_text,
    token_count,
)
from render_agent.engines.remote.endpoints import HOSTED_HOST, OPENAI, PLACEHOLDER_KEY, Endpoint
from render_agent.engines.remote.http_client import sdk_client
from render_agent.engines.remote.response_bodies import parse_body

CALL_FIELDS = ("id", "type", "function", "index")  # of OpenAI's protocol


@dataclass(frozen=True, slots=True)
class OpenAIOptions(RemoteOptions):
    """Options for requests to servers that speak OpenAI's protocol."""

    api: Literal["chat", "responses"] = "chat"
    """`chat` (chat completions) or `responses` (OpenAI's Responses API)."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """Name of the field that limits the tokens of a reply; by default `max_completion_tokens` for OpenAI's own
    servers and if `reasoning_effort` is set.
    """
    reasoning_effort: str | None = None
    top_p: Positive | None = None
    image_detail: str | None = None


class OpenAIApi(ChatApi):
    """The connection of OpenAI's APIs."""

    service = OPENAI
    options: OpenAIOptions
    path: ClassVar[str] = "/v1/chat/completions"
    messages_field: ClassVar[str] = "messages"

    def connect(self, endpoint: Endpoint) -> Any:
        import openai

        return sdk_client(openai, openai.AsyncOpenAI, PLACEHOLDER_KEY, endpoint, self.options)

    async def list_models(self, client: Any) -> list[dict[str, Any]]:
        raw = await client.models.with_raw_response.list()
        return mappings(mapping(parse_body(raw.text)).get("data"))

    def job_request(self, key: str, messages: Messages, fields: Fields) -> dict[str, Any]:
        """Return a line of the input file of a batch."""
        body = {"model": self.model, self.messages_field: list(messages), **fields}
        return {"custom_id": key, "method": "POST", "url": self.path, "body": body}

    async def submit_job(self, client: Any, requests: Sequence[str]) -> str:
        """Upload the input file and create a batch."""
        content = ("requests.jsonl", "\n".join(requests).encode())
        file = await client.files.create(file=content, purpose="batch")
        batch = await client.batches.create(
            input_file_id=job_field(file, "id"), endpoint=self.path, completion_window="24h"
        )
        return job_field(batch, "id")

    async def poll_job(self, client: Any, job: str) -> tuple[str, str | None]:
        """Return the status of a batch, and the lines of its output file and its error file if it has ended."""
        batch = await client.batches.retrieve(job)
        status = job_field(batch, "status")
        if status not in ("completed", "failed", "expired", "cancelled"):
            return status, None
        files = [n for n in ("output_file_id", "error_file_id") if getattr(batch, n, None)]
        texts = [(await client.files.content(job_field(batch, name))).text for name in files]
        return f"{status}, {getattr(batch, 'errors', None)}", "\n".join(texts)

    def job_result(self, line: Any) -> tuple[Any, int, Any]:
        fault: dict[str, Any] = {"status_code": 200, "body": {"error": line.get("error")}}
        response = line.get("response") or fault
        return line["custom_id"], response["status_code"], response["body"]


class ChatCompletions(OpenAIApi):
    """Chat completions."""

    name = "chat"

    def messages(self, request: Request, image: Callable[[str], str]) -> list[dict[str, Any]]:
        return wire_messages(request.messages, image, self.options.image_detail)

    def fields(
        self, request: Request, samples: int, seed: int, endpoint: Endpoint
    ) -> dict[str, Any]:
        options = self.options
        is_hosted = endpoint.host == HOSTED_HOST or options.reasoning_effort is not None
        limit = options.max_tokens_field or ("max_completion_tokens" if is_hosted else "max_tokens")
        fields: dict[str, Any] = {
            "temperature": request.temperature,
            "seed": seed,
            limit: request.token_limit,
            "top_p": options.top_p,
            "reasoning_effort": options.reasoning_effort,
            "thinking_token_budget": request.thinking_budget,
            "n": samples if samples > 1 else None,
            "tools": None if request.tools is None else list(request.tools),
        }
        if request.schema is not None:
            schema = {"name": "reply", "schema": request.schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        return options.fields(fields)

    async def send(self, client: Any, messages: Messages, fields: Fields) -> str:
        raw = await client.chat.completions.with_raw_response.create(
            model=self.model, messages=messages, extra_body=fields
        )
        return str(raw.text)

    def read(self, body: Any, request: Request) -> Reply | None:
        choices = mapping(body).get("choices")
        found = choices if isinstance(choices, list) else []
        messages = mappings([mapping(choice).get("message") for choice in found])
        if not messages or len(messages) < len(found):
            return None
        has_tools = request.tools is not None
        return make_reply(
            [message_text(message, has_tools=has_tools) for message in messages],
            [choice.get("finish_reason") for choice in found],
            _tokens(mapping(body.get("usage"))),
            blocks=[_opaque_parts(message) for message in messages] if has_tools else (),
            is_filtered=any(_text(message.get("refusal")) for message in messages),
        )


def wire_messages(
    messages: Sequence[Message],
    png: Callable[[Any], str],  # returns the PNG of the value of `image`, in base64
    detail: str | None = None,
) -> list[dict[str, Any]]:
    """Convert messages to the format of chat completions.

    A single text becomes a plain string, which all servers support.
    """

    def convert(piece: Mapping[str, str]) -> dict[str, Any]:
        if piece["type"] != "image":
            return {"type": "text", "text": piece["text"]}
        image = {"url": "data:image/png;base64," + png(piece["image"])}
        return {"type": "image_url", "image_url": image | ({"detail": detail} if detail else {})}

    result = []
    for message in messages:
        content = [convert(piece) for piece in message["content"]]
        is_text = len(content) == 1 and content[0]["type"] == "text"
        extra_fields: dict[str, Any] = {
            name: message[name] for name in ("tool_call_id", "name") if name in message
        }
        if calls := message.get("tool_calls"):
            block: Mapping[str, Any] = next(iter(message.get("blocks", ())), {})
            sent = [
                {**call, "function": {**call["function"], "arguments": _arguments(call)}}
                for call in calls
            ]
            for call, signature in zip(sent, mappings(block.get("calls")), strict=False):
                call.update(signature)
            extra_fields["tool_calls"] = sent
            extra_fields |= mapping(block.get("message"))
        text_or_pieces = content[0]["text"] if is_text else content
        result.append({"role": message["role"], "content": text_or_pieces, **extra_fields})
    return result


def _arguments(call: Mapping[str, Any]) -> str:
    return json.dumps(call["function"]["arguments"], ensure_ascii=False)


def _opaque_parts(message: Mapping[str, Any]) -> Blocks:
    """Return what has to be sent back with tool calls: Gemini's signatures of them, and OpenRouter's encrypted
    thinking.
    """
    calls, details = mappings(message.get("tool_calls")), message.get("reasoning_details")
    signatures = [
        {name: value for name, value in call.items() if name not in CALL_FIELDS and value}
        for call in calls
    ]
    if not calls or not (details or any(signatures)):
        return ()
    return ({"calls": signatures, "message": {"reasoning_details": details} if details else {}},)


def message_text(message: Mapping[str, Any], *, has_tools: bool) -> str:
    """Return the text of a message, or its refusal, and its tool calls, after a <think> block."""
    content = message.get("content")
    text = _text(content) or _text(message.get("refusal"))
    calls = mappings([call.get("function") for call in mappings(message.get("tool_calls"))])
    calls += mappings([message.get("function_call")])
    call_texts = [
        call_text(_text(call.get("name")), call.get("arguments") or {})
        if has_tools
        else _text(decode_arguments(call.get("arguments"))) or _text(call.get("name"))
        for call in calls
    ]
    thoughts = (message.get("reasoning_content"), message.get("reasoning"))
    reasoning = next(filter(None, map(_text, (*thoughts, message.get("reasoning_details")))), "")
    if not reasoning and isinstance(content, list):  # Mistral's form
        pieces = (piece.get("thinking") for piece in content if isinstance(piece, dict))
        reasoning = "".join(map(_text, pieces))
    return reply_text(text, call_texts, reasoning)


def _text(content: Any) -> str:
    """Return the text of a field that contains a string, a list of strings or text pieces, or a JSON object."""
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False)
    if isinstance(content, list):
        pieces = (piece.get("text") if isinstance(piece, dict) else piece for piece in content)
        return "".join(piece for piece in pieces if isinstance(piece, str))
    return content if isinstance(content, str) else ""


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    """Return the token counts of a response; missing ones are 0.

    Some servers count thinking in the total but not among the completion tokens; it is part of the reply here.
    """
    of_prompt = mapping(usage.get("prompt_tokens_details"))
    prompt, reply = (token_count(usage.get(f"{part}_tokens")) for part in ("prompt", "completion"))
    thought = token_count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if prompt + reply + thought == token_count(usage.get("total_tokens")):
        reply += thought
    cached, written = (token_count(of_prompt.get(f"{n}_tokens")) for n in ("cached", "cache_write"))
    return Tokens(prompt, reply, cached, thought, written)
