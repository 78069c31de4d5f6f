"""Quirks of servers: finish reasons, errors inside a success, event streams, system messages, truncated prompts."""

import contextlib
import gzip
import json
import zlib
from dataclasses import replace
from importlib.util import find_spec

import pytest
from factories.models import load_random_image
from factories.servers import StubServer, chat_answers, chat_reply

from render_agent.dialogue import chat
from render_agent.dialogue.chat import with_blocks
from render_agent.dialogue.events import (
    CONTENT_FILTER,
    CONTEXT_EXCEEDED,
    NO_USAGE,
    PROMPT_TRUNCATED,
    RENAMED,
    SYSTEM_IN_USER,
)
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.tools_protocol import ToolsProtocol
from render_agent.engines.engine import Request
from render_agent.engines.openai.chat_completions import ChatCompletions, OpenAIOptions
from render_agent.engines.remote.endpoints import parse_endpoint
from render_agent.engines.remote.http_client import MAX_RESPONSE_BYTES
from render_agent.engines.remote.remote_engine import RemoteEngine
from render_agent.engines.remote.response_bodies import error_message, normalize
from render_agent.errors import EngineError
from render_agent.util.safe_parse import parse_json

pytestmark = pytest.mark.skipif(
    find_spec("openai") is None, reason="the extra openai is not installed"
)

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
GOOD = '{"answer": "B", "done": true}'


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    """Retry immediately."""
    monkeypatch.setattr("render_agent.engines.remote.remote_engine.INITIAL_DELAY_SECONDS", 0.01)


@pytest.fixture
def serve():
    """Serve responses one after the other, the last one repeatedly; return the engine and the server."""
    resources = []

    def make(*responses, rule=None, retries=4):
        def answer(method, path, body):
            if not path.endswith("/chat/completions"):
                return chat_answers(chat_reply)(method, path, body)
            if rule is not None:
                return rule(json.loads(body))
            response = responses[min(len(server.bodies), len(responses)) - 1]
            status, content = response if isinstance(response, tuple) else (200, response)
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            return status, {}, content

        server = StubServer(answer)
        resources.append(server)
        api = ChatCompletions("made", OpenAIOptions(retries=retries))
        engine = RemoteEngine(api, [parse_endpoint(server.url, None)], 1)
        resources.append(engine)
        return engine, server

    yield make
    for resource in reversed(resources):
        resource.close()


def ask(turns=0, **more):
    messages = [chat.message("system", chat.text("Look."))]
    messages.append(chat.message("user", chat.text("Which?"), chat.image_piece("32x32-1.png")))
    for number in range(turns):
        messages += [chat.assistant(f"{number}"), chat.message("user", chat.text("Go on."))]
    return Request("q", turns, messages, load_random_image, schema=SCHEMA, **more)


def completion(content=GOOD, finish="stop", usage=(900, 20), **message):
    counts = usage and dict(zip(("prompt_tokens", "completion_tokens"), usage, strict=True))
    choice = {"message": {"role": "assistant", "content": content, **message}}
    return {"choices": [choice | {"finish_reason": finish}], "usage": counts}


def error(code, message="out of order", **more):
    return {"error": {"code": code, "message": message, **more}}


@pytest.mark.parametrize(
    ("reason", "events"),
    [
        ("length", ()),
        ("max_tokens", ()),
        ("MAX_TOKENS", ()),
        ({"type": "length", "length": 512}, ()),
        ("model_length", (CONTEXT_EXCEEDED,)),
        ("model_context_window_exceeded", (CONTEXT_EXCEEDED,)),
    ],
    ids=str,
)
def test_token_limit_and_context_window_are_distinguished(serve, reason, events):
    engine, _ = serve(completion("{", reason))
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.finish, reply.events) == ("{", "length", events)


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "refusal", "RECITATION"])
def test_content_filter_is_recorded(serve, reason):
    engine, server = serve(completion(None, reason))
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.finish, reply.events) == ("", "stop", (CONTENT_FILTER,))
    assert len(server.bodies) == 1


def test_refusal_is_an_event(serve):
    engine, server = serve(completion(None, "stop", refusal="I cannot help."))
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.events) == ("I cannot help.", (CONTENT_FILTER,))
    assert len(server.bodies) == 1


# Sentences that resemble those of the table, but concern one request.
UNKNOWN = [
    (422, "max_tokens must be at most 4096"),
    (400, "max_tokens is too large: 32768. This model supports at most 16384 completion tokens"),
    (400, "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"),
    (422, "this accepts only text up to 300 characters"),
    (400, "the image could not be decoded"),
    (422, "unknown variant `foo`, expected `bar`"),
    (400, "the frobnicator is unhappy"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message"), UNKNOWN)
def test_unknown_sentence_of_a_server_is_passed_on(serve, status, message):
    engine, server = serve((status, error(status, message)), completion())
    (reply,) = engine.generate([ask()])
    assert f"{server.url} rejected the request (status {status}: {message})" == reply.error
    assert engine.generate([ask()])[0].text == GOOD
    assert [body.keys() for body in server.bodies] == [server.bodies[0].keys()] * 2


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "STOP", "end_turn", None, "eos"])
def test_other_reasons_are_ordinary_ends(serve, reason):
    engine, server = serve(completion(GOOD, reason))
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.finish, reply.events) == (GOOD, "stop", ())
    assert len(server.bodies) == 1


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"])
def test_malformed_call_is_a_reply_of_the_model(serve, reason):
    engine, server = serve(completion(None, reason))
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.error, reply.events) == ("", None, ())
    assert len(server.bodies) == 1


FAULTY = [
    completion('{"reasoning":"I see the', "error"),
    completion("", "abort"),
    completion("", "load"),
    completion(None, "tool_calls"),
    completion(None, None),
    {"choices": [{"message": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 9}},
    {"choices": None},
    b"",
    b"null",
    b'{"choices": [{"message": {"content": "{',
    b"<html><h1>504 Gateway Time-out</h1></html>",
    {"success": False, "errors": [{"code": 7009, "message": "Upstream service unavailable"}]},
    {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}},
    {"error_code": 336100, "error_msg": "please try again later"},
    gzip.compress(b'{"error": "busy"}', mtime=0)[:-9],
    (503, b"<html><title>503 Service Temporarily Unavailable</title></html>"),
    (424, error(None, "Request failed during generation: Server error")),
    (520, b""),
    error(429, "Rate limit exceeded"),
    error("rate_limit_exceeded"),
    error("RESOURCE_EXHAUSTED"),
    error(None, "Provider returned error"),
    error("503"),
    {"error": "the server is overloaded"},
    [error(500)],
    {"choices": [{"finish_reason": "error", **error(502)}]},
    {"object": "error", "message": "internal", "code": 500},
    b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: {"error": {"code": 502}}\n\n',
    b'data: {"choices": [{"delta": {"content": "cut off"}}]}\n\n',
    (498, error("capacity_exceeded")),
    (499, b""),
]


@pytest.mark.parametrize("response", FAULTY, ids=str)
def test_fault_of_the_server_is_retried(serve, response):
    engine, server = serve(response, response, completion())
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.events) == (GOOD, ("retried", "retried"))
    assert len(server.bodies) == 3


@pytest.mark.parametrize("response", FAULTY, ids=str)
def test_lasting_fault_of_the_server_fails_the_question(serve, response):
    engine, server = serve(response, retries=1)
    (reply,) = engine.generate([ask()])
    assert server.url in reply.error
    assert not reply.samples
    assert len(server.bodies) == 2


# Messages of OpenAI, Anthropic, Gemini, xAI, Mistral, Groq, Together and DashScope, and of vLLM, SGLang, llama.cpp, Ollama,
# LM Studio, TGI and new-api.
TOO_LONG = [
    (400, "This model's maximum context length is 4097 tokens. However, you requested 4120 tokens"),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000"),
    (413, "Request exceeds the maximum size"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
    (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    (429, "Request too large for model `m` on tokens per minute (TPM): Limit 30000, Requested 33000"),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000"),
    (400, "Range of input length should be [1, 30720]"),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "At most 16 image(s) may be provided in one prompt."),
    (500, "the request exceeds the available context size, try increasing it"),
    (400, "the input length exceeds the context length"),
    (400, "Trying to keep the first 5000 tokens when context the overflows."),
    (400, "Too many images in request: 11 images provided, but the model supports a maximum of 10 images."),
    (400, "Image count 5 exceeds limit 4 per request."),
    (500, "too many images in the message, max allowed is 16"),
    (200, "context_length_exceeded"),
    (400, "Invalid request: Your request exceeded model token limit: 8192"),
    (400, "Request payload size exceeds the limit: 20971520 bytes."),
    (400, "too many image inputs, expected at most 50"),
    (400, "exceeded the maximum number of multimodal items"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message"), TOO_LONG)
def test_prompt_that_is_too_long_fails_its_question_with_advice(serve, status, message):
    engine, server = serve(completion(), *[(status, error(None, message))] * 4, completion())
    assert engine.generate([ask()])[0].text == GOOD
    for _ in range(4):
        (reply,) = engine.generate([ask()])
        assert "--history" in reply.error
        assert "retried" not in reply.events
    assert engine.generate([ask()])[0].text == GOOD
    assert len(server.bodies) == 6


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "m does not support tools"),
        (400, "tools is not supported in this model"),
        (404, "No endpoints found that support tool use."),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
        (500, "tools param requires --jinja flag"),
        (400, "The `reasoning_content` in the thinking mode must be passed back to the API."),
        (
            400,
            "thinking is enabled but reasoning_content is missing in assistant tool call message",
        ),
        (400, "Function call is missing a thought_signature in functionCall parts."),
    ],
)
def test_model_without_tools_stops_the_run_with_advice(serve, status, message):
    engine, server = serve((status, error(status, message)))
    with pytest.raises(EngineError, match="--reply-protocol json"):
        engine.generate([ask()])
    assert len(server.bodies) == 1


def test_redirect_to_a_login_page_stops_the_run(serve):
    where = {"location": "https://login.example.com/sso"}
    engine, server = serve(rule=lambda _: (302, where, b"<html>Sign in</html>"))
    with pytest.raises(EngineError, match=r"login\.example\.com"):
        engine.generate([ask()])
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "encode", [lambda body: b"\xef\xbb\xbf" + body, gzip.compress, zlib.compress]
)
@pytest.mark.parametrize("headers", [{}, {"content-encoding": "gzip"}], ids=str)
def test_byte_order_mark_and_compression_are_removed(serve, encode, headers):
    body = encode(json.dumps(completion()).encode())
    engine, _ = serve(rule=lambda _: (200, headers, body))
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.events) == (GOOD, ())


def test_large_compressed_response_is_rejected(serve):
    body = gzip.compress(b" " * (MAX_RESPONSE_BYTES + 1))
    engine, _ = serve(rule=lambda _: (200, {}, body))
    (reply,) = engine.generate([ask()])
    assert "larger" in reply.error


NO_ENDPOINT = error(404, "No endpoints found that support image input")


@pytest.mark.parametrize(
    "response",
    [
        NO_ENDPOINT,
        {"choices": [NO_ENDPOINT]},
        (400, error(400, "This model does not support image input.")),
        (500, error(500, "image input is not supported - hint: you may need the mmproj")),
        (400, {"message": "At most 0 image(s) may be provided in one prompt."}),
        (400, error(None, "unknown variant `image_url`, expected `text`")),
        (422, {"detail": "messages[1]: unknown variant `image_url`, expected `text` at line 1"}),
        (400, error(None, "Invalid content type. image_url is only supported by certain models.")),
        (400, error(None, "This model only supports text input")),
        (400, error(400, "API key not valid. Please pass a valid API key.")),
        error(401, "User not found."),
        (400, error(400, "made is not a valid model ID")),
        (400, error("invalid_request_error", "Model Not Exist")),
        (404, error("model_not_found", "The model `made` does not exist")),
        (400, error(None, "Invalid model name passed in model=made")),
        error("invalid_api_key", "Incorrect API key provided"),
        error(402, "Insufficient credits"),
    ],
    ids=str,
)
def test_error_that_concerns_every_request_stops_at_once(serve, response):
    engine, server = serve(response)
    with pytest.raises(EngineError) as caught:
        engine.generate([ask()])
    assert len(server.bodies) == 1
    assert "\n" not in str(caught.value)


def test_rejected_prompt_of_a_content_filter_fails_its_question_only(serve):
    blocked = (400, error("content_filter", "The prompt triggered our content management policy"))
    engine, server = serve(*[blocked] * 4, completion())
    for _ in range(4):
        (reply,) = engine.generate([ask()])
        assert reply.events == (CONTENT_FILTER,)
        assert "content management" in reply.error
    (reply,) = engine.generate([ask()])
    assert reply.text == GOOD
    assert len(server.bodies) == 5


def chunk(finish=None, usage=None, **delta):
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, "usage": usage}).encode() + b"\n\n"


def test_event_stream_becomes_one_reply(serve):
    usage = {"prompt_tokens": 30, "completion_tokens": 4}
    parts = [
        b": keep-alive\n\n",
        chunk(role="assistant", content=""),
        chunk(reasoning_content="hm "),
        chunk(reasoning_content="so"),
        chunk(content='{"answer": '),
        chunk(content='"B"}'),
        chunk("max_tokens"),
        b'data: {"choices": [], "usage": ' + json.dumps(usage).encode() + b"}\n\ndata: [DONE]\n\n",
    ]
    engine, server = serve(b"".join(parts))
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.finish) == ('<think>hm so</think>\n{"answer": "B"}', "length")
    assert (reply.tokens.prompt, reply.tokens.reply) == (30, 4)
    assert len(server.bodies) == 1


def test_tool_call_in_an_event_stream(serve):
    deltas = [
        {"index": 0, "id": "1", "function": {"name": "answer", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"answer": '}},
        {"index": 0, "function": {"arguments": '"B"}'}},
        {"index": 1, "function": {"name": "look", "arguments": "{}"}},
    ]
    stream = b"".join(chunk(tool_calls=[delta]) for delta in deltas)
    engine, _ = serve(stream + chunk("tool_calls"))
    (reply,) = engine.generate([ask()])
    assert reply.text == '{"answer": "B"}\n{}'


def test_content_may_be_a_list_of_strings(serve):
    engine, _ = serve(completion([GOOD]))
    (reply,) = engine.generate([ask()])
    assert reply.text == GOOD


def call(arguments):
    return {"id": "1", "type": "function", "function": {"name": "answer", "arguments": arguments}}


FIELDS = {"answer": "B", "done": True}


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "tool_calls": [call(json.dumps(FIELDS))]},
        {"content": None, "tool_calls": [call(FIELDS)]},
        {"content": None, "tool_calls": [call(json.dumps(json.dumps(FIELDS)))]},
        {"content": "", "function_call": {"name": "answer", "arguments": FIELDS}},
        {"content": FIELDS},
        {"content": [{"type": "text", "text": json.dumps(FIELDS)}]},
    ],
    ids=str,
)
def test_reply_in_a_tool_call_or_an_object_is_read(serve, message):
    engine, _ = serve(completion(finish="tool_calls", **message))
    (reply,) = engine.generate([ask()])
    assert json.loads(reply.text) == FIELDS


WRITTEN = '<tool_call>{"name": "answer", "arguments": {"answer": B}}'


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error("tool_use_failed", "Failed to call a function.", failed_generation=WRITTEN)),
        (500, {"error": f"error parsing tool call: raw='{WRITTEN}', err=invalid character 'B'"}),
        (500, error(500, f"Failed to parse input at pos 12: {WRITTEN}")),
        (200, error(500, f"Failed to parse input at pos 12: {WRITTEN}")),
    ],
    ids=str,
)
def test_reply_that_the_server_could_not_parse_belongs_to_the_model(serve, status, body):
    engine, server = serve((status, body))
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.finish, reply.error) == (WRITTEN, "stop", None)
    assert len(server.bodies) == 1


def test_error_with_an_empty_quote_stays_an_error(serve):
    engine, _ = serve((400, error("json_validate_failed", "Failed", failed_generation="")))
    (reply,) = engine.generate([ask()])
    assert "Failed" in reply.error


def test_signatures_and_encrypted_thinking_are_sent_back_with_tool_calls(serve):
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    calls = [{**call(json.dumps(FIELDS)), **signed}]
    engine, server = serve(completion(None, tool_calls=calls, reasoning_details=details))
    tools = [{"type": "function", "function": {"name": "answer", "parameters": SCHEMA}}]
    (reply,) = engine.generate([replace(ask(), tools=tools)])
    sent = with_blocks(ToolsProtocol().reply_message(reply.text, 0), reply.blocks[0])
    next_turn = [*ask().messages, sent, chat.message("user", chat.text("Go on."))]
    engine.generate([replace(ask(), messages=next_turn, tools=tools)])
    assert server.bodies[-1]["messages"][2]["reasoning_details"] == details
    (returned,) = server.bodies[-1]["messages"][2]["tool_calls"]
    assert returned.items() >= {"type": "function", **signed}.items()
    assert json.loads(returned["function"]["arguments"]) == FIELDS


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
    ids=str,
)
def test_thought_without_a_reply_is_a_thought(serve, message):
    engine, _ = serve(completion(**{"content": None, **message}))
    (reply,) = engine.generate([ask()])
    assert reply.text == "<think>hm</think>\n"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "System role not supported"),
        (500, "Jinja Exception: System role not supported"),
        (400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
        (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (200, "this model does not support the system role"),
    ],
)
def test_instructions_move_into_the_user_message(serve, status, message):
    def rule(body):
        if body["messages"][0]["role"] == "system":
            return status, {}, json.dumps(error(400, message)).encode()
        return 200, {}, json.dumps(completion()).encode()

    engine, server = serve(rule=rule)
    for sent in (2, 3):
        (reply,) = engine.generate([ask(turns=1)])
        assert (reply.text, reply.events) == (GOOD, (SYSTEM_IN_USER,))
        assert len(server.bodies) == sent
    first, assistant, last = server.bodies[-1]["messages"]
    assert [message["role"] for message in (first, assistant, last)] == [
        "user",
        "assistant",
        "user",
    ]
    texts = [piece["text"] for piece in first["content"] if piece["type"] == "text"]
    assert texts == ["Look.", "Which?"]
    assert len(first["content"]) == 3


LIST_400 = [
    error(
        400,
        'Invalid JSON payload received. Unknown name "additionalProperties" at'
        " 'generation_config.response_schema': Cannot find field.",
        status="INVALID_ARGUMENT",
    )
]
EXTRA = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted", "input": 1}


@pytest.mark.parametrize(
    ("field", "status", "body"),
    [
        ("response_format", 400, LIST_400),
        ("response_format", 400, error(None, "guided decoding is not available")),
        ("response_format", 200, error(400, "json_schema is unsupported here")),
        ("seed", 422, {"detail": [{"loc": ["body", "seed"], **EXTRA}]}),
        ("seed", 400, error(None, "unknown argument", param="seed")),
        ("temperature", 400, error("unsupported_value", "'temperature' does not support 0")),
        ("temperature", 400, {"detail": "temperature must be 1"}),
        (
            "temperature",
            400,
            error(
                400, "Provider returned error", metadata={"raw": '{"message": "no temperature"}'}
            ),
        ),
    ],
    ids=str,
)
def test_rejected_field_of_any_error_form_is_omitted(serve, field, status, body):
    def rule(sent):
        response = body if field in sent else completion()
        return (status if field in sent else 200), {}, json.dumps(response).encode()

    engine, server = serve(rule=rule)
    (reply,) = engine.generate([ask()])
    assert (reply.text, reply.events) == (GOOD, (f"omitted:{field}",))
    assert len(server.bodies) == 2
    assert server.bodies[0].keys() - server.bodies[1].keys() == {field}


def test_several_rejected_fields_are_omitted_one_after_the_other(serve):
    def rule(sent):
        for field in ("seed", "temperature", "response_format"):
            if field in sent:
                return 400, {}, json.dumps(error(400, f"unknown field {field}")).encode()
        return 200, {}, json.dumps(completion()).encode()

    engine, server = serve(rule=rule)
    (reply,) = engine.generate([ask()])
    assert set(reply.events) == {"omitted:seed", "omitted:temperature", "omitted:response_format"}
    assert len(server.bodies) == 4


@pytest.mark.parametrize(
    "body",
    [
        error(
            "unsupported_parameter",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
            " 'max_completion_tokens' instead.",
            param="max_tokens",
        ),
        {"detail": [{"loc": ["body", "max_tokens"], **EXTRA}]},
        {"detail": "max_tokens is not accepted here; send max_completion_tokens"},
    ],
    ids=str,
)
def test_token_limit_is_sent_under_its_other_name(serve, body):
    def rule(sent):
        response = body if "max_tokens" in sent else completion()
        return (422 if "max_tokens" in sent else 200), {}, json.dumps(response).encode()

    engine, server = serve(rule=rule)
    (reply,) = engine.generate([ask(max_new_tokens=77)])
    assert reply.events == (RENAMED,)
    assert server.bodies[-1]["max_completion_tokens"] == 77


def test_error_that_stays_after_an_adaptation_fails_the_question(serve):
    engine, server = serve((400, error(400, "temperature: something else is wrong")))
    (reply,) = engine.generate([ask()])
    assert "something else" in reply.error
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("counts", "truncated"),
    [
        ([900, 1500, 2100, 2700], []),
        ([900, 3000, 4096, 4096, 4090], [3, 4]),
        ([900, 320, 330, 340], []),  # counts without the cached tokens
        ([1500, 800, 810, 820], []),
        ([7, 7, 7], []),
    ],
    ids=str,
)
def test_truncated_prompt_is_detected_by_its_size(serve, counts, truncated):
    engine, _ = serve(*(completion(usage=(count, 5)) for count in counts))
    events = [engine.generate([ask(turns=turn)])[0].events for turn in range(len(counts))]
    assert [turn for turn, each in enumerate(events) if each == (PROMPT_TRUNCATED,)] == truncated
    assert all(not each for turn, each in enumerate(events) if turn not in truncated)
    engine.retire("q")
    assert engine.generate([ask()])[0].events == ()


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "total_tokens": 150,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Tokens(100, 50, 60, 20, 30),
        ),
        (  # thinking counted apart from the completion
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "total_tokens": 170,
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Tokens(100, 70, 0, 20),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}, Tokens(9, 2)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": "4"}}, Tokens(9)),
    ],
)
def test_each_token_count_includes_its_parts(serve, usage, expected):
    engine, _ = serve(completion() | {"usage": usage})
    (reply,) = engine.generate([ask()])
    assert reply.tokens == expected


def test_missing_usage_is_recorded(serve):
    engine, _ = serve(completion(usage=None))
    (reply,) = engine.generate([ask()])
    assert reply.events == (NO_USAGE,)


@pytest.mark.parametrize("status", [200, 400, 404, 500])
@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"\xff", b"data:", b"7", b'"a"', b"[" * 10**5, b'{"error":' * 900 + b"1" + b"}" * 900, b"[" * 900 + b"]" * 900, b'{"choices": [null, 3]}', b'{"error": [[]], "choices": 3}', b'data: {"choices": [{"delta": 3}]}'], ids=lambda body: str(body[:20]))  # fmt: skip
def test_any_body_has_a_status(status, body):
    normal, content = normalize(status, body)
    assert normal == status or normal >= 400
    with contextlib.suppress(ValueError):
        error_message(parse_json(content.decode()))
    assert isinstance(content, bytes)
