"""Exceptions of this program's own code are bugs, not faults of a server, even if an SDK is in between."""

import asyncio
import json
from unittest.mock import patch

import pytest
from factories.models import load_random_image
from factories.servers import StubServer, chat_reply
from hypothesis import example, given
from hypothesis import strategies as st

from render_agent.dialogue import chat
from render_agent.dialogue.chat import with_blocks
from render_agent.dialogue.tools_protocol import ToolsProtocol
from render_agent.engines.anthropic.messages_api import AnthropicOptions, MessagesApi
from render_agent.engines.engine import Request
from render_agent.engines.gemini.generate_content import GeminiOptions, GenerateContent
from render_agent.engines.openai.chat_completions import ChatCompletions, OpenAIOptions
from render_agent.engines.openai.responses import Responses
from render_agent.engines.remote import http_client
from render_agent.engines.remote.api_error import ApiError, sdk_call
from render_agent.engines.remote.endpoints import parse_endpoint
from render_agent.engines.remote.quirks import find_adaptation
from render_agent.engines.remote.remote_engine import RemoteEngine, encodable
from render_agent.engines.remote.response_bodies import normalize

APIS = [
    MessagesApi("made", AnthropicOptions(retries=0)),
    ChatCompletions("made", OpenAIOptions(retries=0)),
    GenerateContent("made", GeminiOptions(retries=0)),
    Responses("made", OpenAIOptions(retries=0)),
]
BY_NAME = {"argvalues": APIS, "ids": lambda api: api.name}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {}}}]


def ask(*messages, **options):
    first = chat.message("user", chat.text("Which?"), chat.image_piece("32x32-1.png"))
    return Request("q", len(messages) // 2, [first, *messages], load_random_image, **options)


@pytest.fixture
def connect():
    """Connect APIs to servers that give one answer."""
    resources = []

    def connect_api(api, answer):
        server = StubServer(answer)
        resources.append(server)
        engine = RemoteEngine(api, [parse_endpoint(server.url, None, service=api.service)], 1)
        resources.append(engine)
        return engine

    yield connect_api
    for resource in reversed(resources):
        resource.close()


def broken(*_):
    raise LookupError("a bug")


@pytest.mark.parametrize("place", ["http_client.normalize", "remote_engine.parse_body"])
@pytest.mark.parametrize("api", **BY_NAME)
def test_exception_of_this_program_is_raised(api, place, connect, monkeypatch):
    """The first is raised inside the SDK, which calls it for every response."""
    engine = connect(api, lambda *_: (200, {}, chat_reply("{}")))
    monkeypatch.setattr(f"render_agent.engines.remote.{place}", broken)
    with pytest.raises(LookupError, match="a bug"):
        engine.generate([ask()])
    engine.submit([ask()])
    with pytest.raises(LookupError, match="a bug"):
        list(engine.ready())


@pytest.mark.parametrize("body", [b"\xff", b'{"error":' * 900 + b"1" + b"}" * 900], ids=len)
@pytest.mark.parametrize("api", **BY_NAME)
def test_exception_of_an_sdk_fails_its_request(api, body, connect):
    """Google's SDK cannot decode these errors."""
    engine = connect(api, lambda *_: (422, {}, body))
    (reply,) = engine.generate([ask()])
    assert engine.servers[0].endpoint.url in reply.error


WRAPPER = """
class APIConnectionError(Exception):
    pass

def call(hook):
    try:
        hook(None)
    except Exception as error:
        raise APIConnectionError("Connection error.") from error
"""


def test_exception_that_an_sdk_wraps_is_raised():
    """OpenAI's SDK did so before version 3."""
    sdk = {"__name__": "openai.stand_in"}
    exec(WRAPPER, sdk)

    async def call():
        async with sdk_call(1.0):
            sdk["call"](http_client.decompress)

    with pytest.raises(AttributeError, match="NoneType"):
        asyncio.run(call())


# Keys and values that responses have, in places where they do not belong.
KEYS = """choices message content text type message thinking reasoning reasoning_content reasoning_details tool_calls
function name arguments finish_reason usage prompt_tokens completion_tokens total_tokens prompt_tokens_details
cached_tokens output summary output_text refusal function_call call_id id status incomplete_details reason input
tool_use stop_reason candidates parts functionCall args thought thoughtSignature finishReason finishMessage
usageMetadata promptFeedback blockReason index input_tokens output_tokens output_tokens_details thinking_tokens"""
RESULT_KEYS = st.sampled_from("custom_id key result response error type status_code body".split())
ENDPOINT = parse_endpoint("http://localhost/v1", None)
keys = st.sampled_from(KEYS.split())
scalars = st.none() | st.booleans() | st.integers() | st.floats() | keys | st.just("\ud800")
values = st.recursive(
    scalars, lambda part: st.lists(part, max_size=3) | st.dictionaries(keys, part), max_leaves=20
)
objects = st.dictionaries(keys, values, max_size=5)
bodies = st.one_of(
    values,
    objects.map(lambda part: {"choices": [{"message": part}]}),
    objects.map(lambda part: {"choices": [{"message": {"tool_calls": [{"function": part}]}}]}),
    objects.map(lambda part: {"type": "message", "content": [{**part, "type": "tool_use"}, part]}),
    objects.map(lambda part: {"output": [{**part, "type": "function_call"}, part]}),
    objects.map(lambda part: {"candidates": [{"content": {"parts": [{"functionCall": part}]}}]}),
)


@example(body={"type": "message", "content": [{"type": []}]}, tools=None)
@given(body=bodies, tools=st.sampled_from([None, TOOLS]))
@pytest.mark.parametrize("api", **BY_NAME)
def test_no_response_breaks_the_readers(api, body, tools):
    """Any body is read, and what it becomes is sent back."""
    body = json.loads(json.dumps(body))
    reply = api.read(body, ask(tools=tools))
    if reply is not None:
        message = ToolsProtocol().reply_message(reply.text, 0)
        blocks = reply.blocks[0] if reply.blocks else ()
        sent = with_blocks(message, blocks)
        api.messages(encodable(ask(sent, chat.message("user", chat.text("Go on.")))), str)


@given(body=bodies)
@pytest.mark.parametrize("api", **BY_NAME)
def test_no_error_breaks_the_readers(api, body):
    request, text = ask(schema={}), json.dumps(body)
    fields = api.fields(request, 1, 0, ENDPOINT)
    for status in (200, 400, 500):
        status, content = normalize(status, text.encode())
        error = ApiError("", status, content.decode())
        assert error.report(ENDPOINT).isprintable()
        find_adaptation(error.body, fields, request, api)


@given(lines=st.lists(values | st.dictionaries(RESULT_KEYS, values), max_size=3))
@pytest.mark.parametrize("api", APIS[:3], ids=lambda api: api.name)
def test_no_result_of_a_batch_job_breaks_the_reader(api, lines):
    async def poll(client, job):
        return "ended", "\n".join(map(json.dumps, lines))

    with patch.object(api, "poll_job", poll):
        asyncio.run(api.fetch_job(None, "job"))
