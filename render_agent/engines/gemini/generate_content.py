"""The `generateContent` method of the Gemini API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from render_agent.dialogue.chat import Message, Piece
from render_agent.dialogue.parsing.tool_calls import call_text
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply, Request
from render_agent.engines.remote.api_error import ApiError
from render_agent.engines.remote.chat_api import (
    ChatApi,
    Fields,
    Messages,
    RemoteOptions,
    job_field,
    make_reply,
    mapping,
    mappings,
    reply_text,
    token_count,
)
from render_agent.engines.remote.endpoints import PLACEHOLDER_KEY, Endpoint, Service
from render_agent.engines.remote.exchanges import (
    calls_of,
    functions,
    split_exchanges,
    text_of,
    texts_of,
)
from render_agent.engines.remote.http_client import http_arguments
from render_agent.engines.remote.make_remote import (
    RemoteMaker,
    read_remote_options,
    required_model,
)
from render_agent.engines.remote.quirks import supported_schema
from render_agent.options import RunConfig


@dataclass(frozen=True, slots=True)
class GeminiOptions(RemoteOptions):
    """Options for the Gemini API."""

    result_images: bool = True
    """True if function responses contain images, which models before Gemini 3 reject."""


class GenerateContent(ChatApi):
    """The `generateContent` method."""

    name = "gemini"
    service = Service(
        "gemini",
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "GOOGLE_GEMINI_BASE_URL",
        key_header="x-goog-api-key",
    )

    def connect(self, endpoint: Endpoint) -> Any:
        """Return the asynchronous part of a client, and its HTTP client."""
        from google import genai

        http = import_module("httpx2" if find_spec("httpx2") else "httpx")
        http_client = http.AsyncClient(
            headers={"accept-encoding": "identity"},
            timeout=http.Timeout(self.options.timeout, connect=self.options.connect_timeout),
            limits=http.Limits(max_keepalive_connections=0),
            **http_arguments(endpoint),
        )
        client = genai.Client(
            vertexai=False,
            api_key=endpoint.headers.get(self.service.key_header, PLACEHOLDER_KEY),
            http_options={
                "base_url": endpoint.url,
                "headers": dict(endpoint.headers),
                "httpx_async_client": http_client,
            },
        )
        return client.aio, http_client

    async def close(self, client: Any) -> None:
        await client[1].aclose()

    async def list_models(self, client: Any) -> list[dict[str, Any]]:
        await client[0].models.get(model=self.model)
        return [{"id": self.model}]

    def messages(self, request: Request, image: Callable[[str], str]) -> list[dict[str, Any]]:
        """Return the contents, with the results of function calls."""

        def blob(piece: Piece) -> dict[str, Any]:
            return {"inline_data": {"mime_type": "image/png", "data": image(piece["image"])}}

        def parts(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
            return [{"text": p["text"]} if p["type"] == "text" else blob(p) for p in pieces]

        contents: list[dict[str, Any]] = []
        for exchange in split_exchanges(request.messages)[1]:
            calls: list[Mapping[str, Any]] = []
            if exchange.reply is not None:
                sent = assistant_content(exchange.reply)
                calls = [mapping(c) for part in sent if (c := function_call(part)) is not None]
                contents.append({"role": "model", "parts": sent})
            shown, images = [], []
            for call, pieces in zip(calls, exchange.results_of(len(calls)), strict=True):
                result: dict[str, Any] = {
                    "name": call.get("name"),
                    "response": {"output": text_of(pieces)},
                }
                if call.get("id"):
                    result["id"] = call["id"]
                blobs = [blob(piece) for piece in pieces if piece["type"] == "image"]
                if blobs and self.options.result_images:
                    result["parts"] = blobs
                else:
                    images += blobs
                shown.append({"function_response": result})
            shown = [*shown, *images] or parts(exchange.shown)
            if shown:
                contents.append({"role": "user", "parts": shown})
        return contents

    def fields(
        self, request: Request, samples: int, seed: int, endpoint: Endpoint
    ) -> dict[str, Any]:
        """Return the configuration of a request."""
        config: dict[str, Any] = {
            "system_instruction": split_exchanges(request.messages)[0] or None,
            "temperature": request.temperature,
            "seed": seed % 2**31,
            "max_output_tokens": request.token_limit,
            "thinking_config": self._thinking(request.thinking_budget),
        }
        if request.schema is not None:
            config |= {
                "response_mime_type": "application/json",
                "response_json_schema": supported_schema(request.schema, self),
            }
        if request.tools is not None:
            tools = supported_schema(request.tools, self)
            declarations = functions(tools, "parameters_json_schema")
            config["tools"] = [{"function_declarations": declarations}]
        return {k: v for k, v in config.items() if v is not None}

    def _thinking(self, budget: int | None) -> dict[str, Any] | None:
        if self.thinking == "off":
            return {"thinking_budget": 0}
        if budget:
            return {"thinking_budget": budget, "include_thoughts": True}
        return {"include_thoughts": True} if self.thinking == "on" else None

    async def send(self, client: Any, messages: Messages, fields: Fields) -> str:
        config = {
            **fields,
            "automatic_function_calling": {"disable": True},
            "should_return_http_response": True,
        }
        if self.options.extra_body:
            config["http_options"] = {"extra_body": dict(self.options.extra_body)}
        response = await client[0].models.generate_content(
            model=self.model, contents=list(messages), config=config
        )
        return str(response.sdk_http_response.body)

    def job_request(self, key: str, messages: Messages, fields: Fields) -> dict[str, Any]:
        """Return a line of the input file of a batch job: the REST form of a request, which the SDK does not write."""
        config = dict(fields)
        tools, system = config.pop("tools", []), config.pop("system_instruction", None)
        request = {"contents": messages, "tools": tools, "generation_config": config}
        if system:
            request["system_instruction"] = {"parts": [{"text": system}]}
        return {"key": key, "request": request | dict(self.options.extra_body)}

    async def submit_job(self, client: Any, requests: Sequence[str]) -> str:
        """Upload the input file and create a batch job."""
        content = BytesIO("\n".join(requests).encode())
        file = await client[0].files.upload(file=content, config={"mime_type": "jsonl"})
        return job_field(
            await client[0].batches.create(model=self.model, src=job_field(file, "name")), "name"
        )

    async def poll_job(self, client: Any, job: str) -> tuple[str, str | None]:
        batch = await client[0].batches.get(name=job)
        status = job_field(batch.state, "name").removeprefix("JOB_STATE_").lower()
        if not status.endswith(("succeeded", "failed", "cancelled", "expired")):
            return status, None
        if not (batch.dest and batch.dest.file_name):
            return status, ""
        content = await client[0].files.download(file=job_field(batch.dest, "file_name"))
        return status, content.decode("utf-8", "replace")

    def job_result(self, line: Any) -> tuple[Any, int, Any]:
        error = {"error": line.get("error", line.get("status"))}
        return line["key"], 200, line.get("response") or error

    def read(self, body: Any, request: Request) -> Reply | None:
        """Parse the first candidate of a response. Raises ApiError if the prompt was blocked."""
        candidates = mappings(mapping(body).get("candidates"))
        reason = mapping(mapping(body).get("promptFeedback")).get("blockReason")
        if not candidates and reason:
            raise ApiError(
                "blocked", 400, f"the prompt was blocked by the content filter: {reason}"
            )
        if not candidates:
            return None
        candidate = candidates[0]
        parts = mappings(mapping(candidate.get("content")).get("parts"))
        texts: dict[bool, list[str]] = {True: [], False: []}
        calls = []
        for part in parts:
            call = function_call(part)
            if call is not None:
                calls.append(call_text(str(call.get("name")), call.get("args") or {}))
            texts[bool(part.get("thought"))].append(str(part.get("text") or ""))
        # The message of a malformed function call quotes it.
        text = "".join(texts[False]) or ("" if calls else str(candidate.get("finishMessage") or ""))
        is_opaque = any("thoughtSignature" in p or function_call(p) is not None for p in parts)
        return make_reply(
            [reply_text(text, calls, "".join(texts[True]))],
            [candidate.get("finishReason")],
            _tokens(mapping(body.get("usageMetadata"))),
            blocks=[tuple(parts) if is_opaque else ()],
        )


def function_call(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the function call of a part; None if it has none."""
    call = part.get("functionCall", part.get("function_call"))
    return call if isinstance(call, Mapping) else None


def assistant_content(reply: Message) -> list[dict[str, Any]]:
    """Return the parts of a reply: as received, with their signatures, or text and calls."""
    if parts := [*filter(_is_valid, reply.get("blocks", ()))]:
        return parts
    return [
        *({"text": text} for text in texts_of(reply)),
        *({"function_call": {"name": name, "args": args}} for _, name, args in calls_of(reply)),
    ]


def _is_valid(part: Mapping[str, Any]) -> bool:
    """True if the SDK accepts a part of a reply."""
    from google.genai.types import Part

    try:
        Part.model_validate(part)
    except ValueError:
        return False
    return True


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    """Return the token counts of a response; the API counts thoughts apart from the reply."""
    thinking_tokens = token_count(usage.get("thoughtsTokenCount"))
    return Tokens(
        token_count(usage.get("promptTokenCount")),
        token_count(usage.get("candidatesTokenCount")) + thinking_tokens,
        token_count(usage.get("cachedContentTokenCount")),
        thinking_tokens,
    )


class Gemini(RemoteMaker):
    """Google's Gemini API."""

    def open_api(self, config: RunConfig) -> GenerateContent:
        """Return the `generateContent` method."""
        options = read_remote_options(config, "google.genai", GeminiOptions)
        return GenerateContent(required_model(config), options, config.thinking)


GEMINI = Gemini()
