"""Stub servers of native APIs, which validate requests and responses against the SDKs' own types."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import threading

import pydantic

from factories.servers import StubServer
from factories.sight import is_sight_check

adapter = functools.cache(pydantic.TypeAdapter)  # expensive to build

SIGNATURE = "c2lnbmVkKy8="


def step(digest, call):
    """Return a move that depends on the whole request."""
    number = int(digest[:6], 16)
    fields = {"rotation_angle_degrees": number % 90 + 1}
    return fields if call else {**fields, "reasoning": digest[:8]}


class AnthropicStub:
    path = "/v1/messages"

    def validate(self, body):
        from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

        allowed = MessageCreateParamsNonStreaming.__annotations__.keys()
        assert body.keys() <= allowed, body.keys() - allowed
        adapter(MessageCreateParamsNonStreaming).validate_python(body)
        roles = [message["role"] for message in body["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        for before, after in zip(body["messages"], body["messages"][1:], strict=False):
            used = [b["id"] for b in before["content"] if b["type"] == "tool_use"]
            assert used == [b["tool_use_id"] for b in after["content"] if "tool_use_id" in b]
        assert '"text": ""' not in json.dumps(body), "the API rejects empty texts"
        marked = json.dumps(body).count('"cache_control"')
        assert marked == 1 + ("system" in body)
        assert "cache_control" in body["messages"][-1]["content"][-1]

    def opaque(self, body):
        return [b for m in body["messages"] if m["role"] == "assistant" for b in m["content"]]

    def reply(self, body, digest):
        thought = {"type": "thinking", "thinking": f"hm {digest[:4]}", "signature": SIGNATURE}
        hidden = {"type": "redacted_thinking", "data": digest}
        if body.get("tools"):
            used = {"type": "tool_use", "id": f"toolu_{digest[:9]}", "name": "look"}
            content = [thought, hidden, {**used, "input": step(digest, True)}]
        else:
            content = [thought, {"type": "text", "text": json.dumps(step(digest, False))}]
        return self.message(content, "tool_use" if body.get("tools") else "end_turn")

    def say(self, text):
        return self.message([{"type": "text", "text": text}], "end_turn")

    def message(self, content, reason, **more):
        from anthropic.types import Message

        usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 9}
        usage |= {"cache_creation_input_tokens": 2, "output_tokens_details": {"thinking_tokens": 4}}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "made"}
        body = {**head, "content": content, "stop_reason": reason, "usage": usage} | more
        if "usage" not in more:
            Message.model_validate(body)
        return body


class GeminiStub:
    path = ":generateContent"

    def validate(self, body):
        from google.genai import types

        known = "contents systemInstruction generationConfig tools".split()
        assert body.keys() <= set(known), body.keys()
        contents = [types.Content.model_validate(each) for each in body["contents"]]
        types.GenerationConfig.model_validate(body["generationConfig"])
        for before, after in itertools.pairwise(contents):
            calls = [p.function_call.name for p in before.parts if p.function_call]
            assert calls == [p.function_response.name for p in after.parts if p.function_response]

    def opaque(self, body):
        return [p for c in body["contents"] if c["role"] == "model" for p in c["parts"]]

    def reply(self, body, digest):
        thought = {"text": f"hm {digest[:4]}", "thought": True}
        if body.get("tools"):
            part = {"functionCall": {"name": "look", "args": step(digest, True)}}
        else:
            part = {"text": json.dumps(step(digest, False))}
        return self.message([thought, {**part, "thoughtSignature": SIGNATURE}], "STOP")

    def say(self, text):
        return self.message([{"text": text}], "STOP")

    def message(self, parts, reason, **more):
        from google.genai import types

        usage = {"promptTokenCount": 14, "cachedContentTokenCount": 7}
        usage |= {"candidatesTokenCount": 5, "thoughtsTokenCount": 4}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": reason}
        body = {"candidates": [candidate], "usageMetadata": usage} | more
        types.GenerateContentResponse.model_validate(body)
        return body


class ResponsesStub:
    path = "/v1/responses"

    def validate(self, body):
        from openai.types.responses.response_create_params import (
            ResponseCreateParamsBase,
            ResponseCreateParamsNonStreaming,
        )

        assert body.keys() <= ResponseCreateParamsBase.__annotations__.keys()
        adapter(ResponseCreateParamsNonStreaming).validate_python(body)
        assert body["store"] is False
        calls = [i["call_id"] for i in body["input"] if i.get("type") == "function_call"]
        results = [i["call_id"] for i in body["input"] if i.get("type") == "function_call_output"]
        assert calls == results

    def opaque(self, body):
        sent = ("function_call_output",)
        return [i for i in body["input"] if i.get("role") != "user" and i["type"] not in sent]

    def reply(self, body, digest):
        summary = [{"type": "summary_text", "text": f"hm {digest[:4]}"}]
        thought = {"type": "reasoning", "id": f"rs_{digest[:9]}", "summary": summary}
        thought["encrypted_content"] = digest
        if body.get("tools"):
            item = {"type": "function_call", "call_id": f"call_{digest[:9]}", "name": "look"}
            item |= {"id": f"fc_{digest[:9]}", "arguments": json.dumps(step(digest, True))}
        else:
            item = self.text_item(json.dumps(step(digest, False)))
        return self.message([thought, item])

    def say(self, text):
        return self.message([self.text_item(text)])

    def text_item(self, text):
        content = [{"type": "output_text", "text": text, "annotations": []}]
        head = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        return {**head, "content": content}

    def message(self, output, **more):
        from openai.types.responses import Response

        details = {"cached_tokens": 7, "cache_write_tokens": 0}
        usage = {"input_tokens": 14, "input_tokens_details": details, "output_tokens": 9}
        usage |= {"output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 23}
        head = {"id": "resp_1", "object": "response", "created_at": 1.0, "model": "made"}
        head |= {"tools": [], "tool_choice": "auto", "parallel_tool_calls": False}
        body = {**head, "status": "completed", "error": None, "output": output, "usage": usage}
        body |= more
        Response.model_validate(body)
        return body


STUBS = {"anthropic": AnthropicStub, "gemini": GeminiStub, "responses": ResponsesStub}


class NativeServer(StubServer):
    """Serves a stub; `script` are answers to the first requests: None for the stub's own reply, "cut" for half of it."""

    def __init__(self, name, script=(), **options):
        self.stub, self.script = STUBS[name](), list(script)
        self.requests, self.problems = [], []
        self.lock = threading.Lock()
        super().__init__(self.serve, **options)
        self.base_url = self.url if name == "responses" else self.url.removesuffix("/v1")

    def handle(self, handler, body):
        if handler.command == "GET" or is_sight_check(body) or self.script[:1] != ["cut"]:
            super().handle(handler, body)
            return
        self.script[0] = None
        status, headers, whole = self.serve(handler.command, handler.path, body)
        handler.respond(status, headers, whole[: len(whole) // 2], length=len(whole))

    def say(self, text):
        return json.dumps(self.stub.say(text)).encode()

    def serve(self, method, path, body):
        if method == "GET":
            name = path.rpartition("/")[2]
            listed = {"data": [{"id": "made"}]} if name == "models" else {"id": name, "name": name}
            return 200, {}, json.dumps(listed).encode()
        assert path.partition("?")[0].endswith(self.stub.path), path
        request = json.loads(body)
        with self.lock:
            self.requests.append(request)
            answer = self.script.pop(0) if self.script else None
        try:
            self.stub.validate(request)
        except Exception as error:  # noqa: BLE001 - reported by the test
            self.problems.append(error)
            return 400, {}, json.dumps({"error": {"message": str(error)}}).encode()
        if answer is None:
            digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
            answer = self.stub.reply(request, digest)
        status, headers, content = answer if isinstance(answer, tuple) else (200, {}, answer)
        return (
            status,
            headers,
            content if isinstance(content, bytes) else json.dumps(content).encode(),
        )
