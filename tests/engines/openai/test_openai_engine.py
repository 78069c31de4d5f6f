"""The OpenAI engine: limits, retries, request fields, and parsing of replies."""

import asyncio
import base64
import gc
import hashlib
import io
import json
import logging
import random
import threading
import time
from functools import partial
from importlib.util import find_spec

import anyio
import numpy as np
import pytest
from factories.models import load_random_image
from factories.runs import STEP, NullObserver, make_config, make_questions, transcripts
from factories.servers import StubServer, chat_answers, chat_reply, different_questions, free_port
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.engine import Request, Workload
from render_agent.engines.openai.chat_completions import ChatCompletions, OpenAIOptions
from render_agent.engines.openai.openai_engine import OPENAI
from render_agent.engines.remote.endpoints import parse_endpoint
from render_agent.engines.remote.remote_engine import RemoteEngine
from render_agent.errors import EngineError
from render_agent.options import RunConfig
from render_agent.runs.runner import start_run

pytestmark = pytest.mark.skipif(
    find_spec("openai") is None, reason="the extra openai is not installed"
)

QUICK = {"retries": 4}
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}


def engine_over(*servers, batch_size=8, key=None, **options):
    endpoints = [parse_endpoint(getattr(server, "url", server), key) for server in servers]
    api = ChatCompletions("made", OpenAIOptions(**QUICK | options))
    return RemoteEngine(api, endpoints, batch_size)


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    """Retry immediately."""
    monkeypatch.setattr("render_agent.engines.remote.remote_engine.INITIAL_DELAY_SECONDS", 0.01)


@pytest.fixture
def create():
    """Create servers and engines that are closed at the end of the test."""
    resources = []

    def create_resource(factory, *args, **options):
        resource = factory(*args, **options)
        resources.append(resource)
        return resource

    yield create_resource
    for resource in reversed(resources):
        resource.close()


def ask(number=0, *files, **options):
    pieces = [chat.text(f"question {number}"), *map(chat.image_piece, files)]
    messages = [chat.message("system", chat.text("Look.")), chat.message("user", *pieces)]
    return Request(f"q{number}", 0, messages, load_random_image, **options)


def echo(body):
    """Reply with a digest of the messages."""
    messages = json.dumps(body["messages"], sort_keys=True).encode()
    return chat_reply(hashlib.sha256(messages).hexdigest())


def first_text(body):
    return chat_reply(body["messages"][1]["content"])


def collect_replies(engine, count):
    replies = {}
    while len(replies) < count:
        replies |= {request.dialogue_id: reply for request, reply in engine.ready()}
    assert list(engine.ready()) == []
    return replies


def test_every_request_gets_its_own_reply_from_generate_and_ready(create):
    delays = random.Random(0)

    def reply(body):
        time.sleep(delays.uniform(0, 0.02))
        return first_text(body)

    server = create(StubServer, chat_answers(reply))
    engine = create(engine_over, server)
    requests = [ask(number) for number in range(30)]
    expected = [f"question {number}" for number in range(30)]
    assert [reply.text for reply in engine.generate(requests)] == expected
    engine.submit(requests[:10])
    engine.submit(requests[10:])
    replies = collect_replies(engine, 30)
    assert [replies[request.dialogue_id].text for request in requests] == expected
    assert engine.calls == len(server.bodies) == 60
    first = replies["q0"]
    assert (first.tokens.prompt, first.tokens.reply, first.finish) == (7, 3, "stop")
    assert first.seconds > 0
    assert 1 <= first.batch_size <= 8


def test_request_contains_the_dialogue_and_the_exact_pixels(create):
    server = create(StubServer, chat_answers(echo))
    engine = create(engine_over, server, image_detail="low", reasoning_effort=None)
    request = ask(1, "32x48-3.png", "64x32-4.png", temperature=0.5, seed=11, max_new_tokens=99)
    request.messages.extend(
        [chat.assistant("I go."), chat.message("user", chat.text("a"), chat.text("b"))]
    )
    (reply,) = engine.generate([request])
    assert reply.error is None
    (body,) = server.bodies
    assert body["model"] == "made"
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.5, 11, 99)
    assert "response_format" not in body
    system, user, assistant, last = body["messages"]
    assert system == {"role": "system", "content": "Look."}
    assert assistant == {"role": "assistant", "content": "I go."}
    assert last["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    text, *images = user["content"]
    assert text == {"type": "text", "text": "question 1"}
    for piece, file in zip(images, ["32x48-3.png", "64x32-4.png"], strict=True):
        assert piece["image_url"]["detail"] == "low"
        prefix, _, data = piece["image_url"]["url"].partition(",")
        assert prefix == "data:image/png;base64"
        decoded = np.array(Image.open(io.BytesIO(base64.b64decode(data))))
        assert np.array_equal(decoded, np.array(load_random_image(file)))


def test_image_is_encoded_once_until_its_question_is_retired(create):
    loaded = []

    def image(file):
        loaded.append(file)
        return load_random_image(file)

    engine = create(engine_over, create(StubServer, chat_answers(echo)))

    def turn(number):
        content = [chat.image_piece("64x64-1.png"), chat.image_piece(f"32x32-{number}.png")]
        return Request(f"q{number}", 0, [chat.message("user", *content)], image)

    engine.generate([turn(1)])
    engine.generate([turn(1)])
    engine.generate([turn(2)])
    assert loaded == ["64x64-1.png", "32x32-1.png", "32x32-2.png"]
    engine.retire("q1")
    engine.generate([turn(2)])
    assert len(loaded) == 3
    engine.retire("q2")
    assert engine._images.bytes == 0
    engine.generate([turn(2)])
    assert loaded[3:] == ["64x64-1.png", "32x32-2.png"]


def test_unreadable_image_fails_only_its_question(create):
    engine = create(engine_over, create(StubServer, chat_answers(first_text)))
    good, bad = engine.generate([ask(1), ask(2, "no size.png")])
    assert good.text == "question 1"
    assert bad.samples == ()
    assert "prompt could not be prepared" in bad.error


class AnswerWhenFull:
    """Answers the oldest request only when `capacity` requests are waiting, and all of them after `total`.

    A client that does not keep the server full would wait forever.
    """

    def __init__(self, capacity, total):
        self.capacity, self.total = capacity, total
        self.waiting, self.received, self.changed = [], 0, threading.Condition()

    def __call__(self, body):
        ticket = object()
        with self.changed:
            self.waiting.append(ticket)
            self.received += 1
            if self.received == self.total:
                self.waiting.clear()
            elif len(self.waiting) == self.capacity:
                del self.waiting[0]
            self.changed.notify_all()
            is_full = self.changed.wait_for(lambda: ticket not in self.waiting, timeout=60)
            assert is_full, "the client did not keep the server full"
        return chat_reply(STEP)


def test_run_keeps_the_server_full(create, tmp_path):
    server = create(StubServer, chat_answers(AnswerWhenFull(4, 16 * 3)))
    options = {"engine": "openai", "model": "made", "base_url": (server.url,), "batch_size": 4}
    options |= {"max_turns": 3, "max_batched_turns": 0, "finish_together": 8, "no_restate": True}
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 16), **options))
    try:
        run.go(NullObserver())
    finally:
        run.close()
    assert server.most_running == 4
    assert len(server.bodies) == 16 * 3


FAULTS = [
    "reset",
    "close",
    "cut",
    (429, {}, "{}"),
    (500, {}, ""),
    (408, {}, ""),
    (502, {}, "<html>"),
]


@pytest.mark.parametrize("fault", [*FAULTS, "stall"], ids=str)
def test_temporary_fault_is_retried_and_reported(create, fault):
    server = create(StubServer, chat_answers(first_text), [fault])
    engine = create(engine_over, server, timeout=1.0 if fault == "stall" else 30.0)
    (reply,) = engine.generate([ask(5)])
    assert reply.text == "question 5"
    assert reply.events == ("retried",)
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("fault", "attempts"),
    [
        ((500, {}, ""), 3),
        ("stall", 3),
        ("garbage", 3),
        ("no choices", 3),
        ("reset", 3),
        ("close", 3),
        ("cut", 3),
    ],
    ids=str,
)
def test_permanent_fault_fails_only_its_request(create, fault, attempts):
    server = create(StubServer, chat_answers(first_text), [fault] * attempts)
    engine = create(engine_over, server, retries=2, timeout=1.0 if fault == "stall" else 30.0)
    (reply,) = engine.generate([ask(5)])
    assert server.url in reply.error
    (other,) = engine.generate([ask(6)])
    assert other.text == "question 6"


def test_hung_server_is_not_asked_for_hours(create):
    server = create(StubServer, chat_answers(first_text), ["stall"] * 9)
    engine = create(engine_over, server, retries=8, timeout=0.2)
    (reply,) = engine.generate([ask(5)])
    assert "timeout" in reply.error
    assert len(server.bodies) == 3


@pytest.mark.parametrize(("status", "attempts"), [(500, 2), (400, 1)])
def test_server_is_abandoned_after_consecutive_failures(create, status, attempts):
    server = create(StubServer, lambda *_: (status, {}, b"broken"))
    engine = create(engine_over, server, batch_size=1, retries=1)
    with pytest.raises(EngineError, match=f"{status}.*broken"):
        engine.generate([ask(number) for number in range(20)])
    assert len(server.bodies) == attempts * 3


def test_retry_after_header_is_respected(create):
    server = create(StubServer, chat_answers(first_text), [(429, {"retry-after": "1"}, "{}")])
    start = time.perf_counter()
    (reply,) = create(engine_over, server).generate([ask(1)])
    assert reply.text == "question 1"
    assert time.perf_counter() - start >= 1


def test_wake_interrupts_the_wait_for_replies(create):
    server = create(StubServer, chat_answers(first_text), ["stall"])
    engine = create(engine_over, server)
    engine.submit([ask(0)])
    engine.wake()
    engine.wake()
    assert list(engine.ready()) == []
    threading.Timer(0.1, engine.wake).start()
    assert list(engine.ready()) == []


def test_close_cancels_requests_immediately(create):
    server = create(StubServer, chat_answers(first_text), ["stall"] * 4)
    engine = engine_over(server)
    engine.submit([ask(number) for number in range(4)])
    while server.running < 4:
        assert list(engine.ready(0.05)) == []
    engine.close()
    engine.close()
    assert server.running == 4, "close did not wait for any reply"


@pytest.mark.parametrize("steps", range(3))
def test_close_awaits_connections_that_have_just_been_scheduled(create, steps):
    """anyio's warning of a connection that is not awaited would be an error."""
    engine = create(engine_over, f"http://127.0.0.1:{free_port()}/v1")

    async def close_while_connecting():
        connecting = asyncio.create_task(anyio.connect_tcp("127.0.0.1", free_port()))
        for _ in range(steps):
            await asyncio.sleep(0)
        await engine._cancel_all()
        return connecting

    connecting = asyncio.run_coroutine_threadsafe(close_while_connecting(), engine._loop).result()
    assert connecting.done()
    del connecting
    gc.collect()


def test_arrived_replies_are_yielded_before_the_error(create):
    server = create(StubServer, chat_answers(first_text))
    engine = create(engine_over, server, retries=1)
    engine.submit([ask(1)])
    while not engine._completed.qsize():
        time.sleep(0.01)
    server.close()
    engine.submit([ask(2)])
    while engine._completed.qsize() < 2:
        time.sleep(0.01)
    assert [reply.text for _, reply in engine.ready()] == ["question 1"]
    for _ in range(2):
        with pytest.raises(EngineError, match=r"(?i)refused.*--continue"):
            list(engine.ready())


def test_questions_are_distributed_and_stay_on_their_server(create):
    servers = [create(StubServer, chat_answers(first_text)) for _ in range(3)]
    engine = create(engine_over, *servers)
    assert RemoteEngine.capabilities.streaming
    for _ in range(3):
        engine.generate([ask(number) for number in range(9)])
    received = [[body["messages"][1]["content"] for body in server.bodies] for server in servers]
    assert [len(questions) for questions in received] == [9, 9, 9]
    assert [len(set(questions)) for questions in received] == [3, 3, 3]
    for number in range(3):
        engine.retire(received[0][number].replace("question ", "q"))
    engine.generate([ask(number) for number in range(20, 23)])
    assert len(servers[0].bodies) == 12


def test_second_server_takes_over_from_an_unreachable_one(create):
    unreachable = f"http://127.0.0.1:{free_port()}/v1"
    engine = create(engine_over, unreachable, create(StubServer, chat_answers(first_text)))
    replies = engine.generate([ask(number) for number in range(8)])
    assert [reply.text for reply in replies] == [f"question {number}" for number in range(8)]
    assert {event for reply in replies for event in reply.events} == {"retried"}


def test_error_names_all_lost_servers(create):
    urls = [f"http://127.0.0.1:{free_port()}/v1" for _ in range(2)]
    engine = create(engine_over, *urls)
    with pytest.raises(EngineError) as caught:
        engine.generate([ask(number) for number in range(8)])
    assert all(url in str(caught.value) for url in urls)
    assert "--continue" in str(caught.value)


def rejecting(name, message=None, param=None, status=400):
    """Return a handler that rejects requests with a field."""
    answer = chat_answers(first_text)
    text = message or f"Unsupported parameter: '{name}' is not supported with this model."

    def handler(method, path, body):
        if method == "POST" and name in json.loads(body):
            error = {"error": {"message": text, "param": param, "type": "invalid_request_error"}}
            return status, {}, json.dumps(error).encode()
        return answer(method, path, body)

    return handler


@pytest.mark.parametrize("field", ["seed", "temperature", "response_format"])
def test_rejected_field_is_omitted_from_then_on_and_recorded(create, field):
    server = create(StubServer, rejecting(field))
    engine = create(engine_over, server)
    for sent in (2, 3):
        (reply,) = engine.generate([ask(1, schema=SCHEMA)])
        assert reply.text == "question 1"
        assert reply.events == (f"omitted:{field}",)
        assert len(server.bodies) == sent
    assert field not in server.bodies[-1]


def test_field_omitted_by_option_is_recorded(create):
    server = create(StubServer, rejecting("temperature"))
    engine = create(engine_over, server, omit=("temperature", "n"))
    (reply,) = engine.generate([ask(1)])
    assert reply.events == ("omitted:temperature",)
    assert len(server.bodies) == 1


def test_field_that_the_user_set_is_not_omitted(create):
    server = create(StubServer, rejecting("top_k"))
    engine = create(engine_over, server, extra_body={"top_k": 3})
    (reply,) = engine.generate([ask(1)])
    assert "top_k" in reply.error
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"max_tokens": 77}),
        ({"max_tokens_field": "max_completion_tokens"}, {"max_completion_tokens": 77}),
        ({"reasoning_effort": "low"}, {"max_completion_tokens": 77, "reasoning_effort": "low"}),
        (
            {"extra_body": {"top_k": 20, "chat_template_kwargs": {"a": 1}}, "top_p": 0.9},
            {"max_tokens": 77, "top_k": 20, "chat_template_kwargs": {"a": 1}, "top_p": 0.9},
        ),
    ],
    ids=str,
)
def test_options_become_fields_of_the_request(create, options, expected):
    server = create(StubServer, chat_answers(first_text))
    create(engine_over, server, **options).generate([ask(1, schema=SCHEMA, max_new_tokens=77)])
    (body,) = server.bodies
    assert expected.items() <= body.items()
    assert len({"max_tokens", "max_completion_tokens"} & body.keys()) == 1
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA


TOO_LONG = (
    "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length"
    " is 2048 tokens and your request has 1788 input tokens."
)


def test_too_long_dialogue_fails_alone(create):
    def limited(method, path, body):
        if b"question 3" in body:
            return 400, {}, json.dumps({"error": {"message": TOO_LONG, "code": 400}}).encode()
        return chat_answers(first_text)(method, path, body)

    server = create(StubServer, limited)
    engine = create(engine_over, server, batch_size=1)
    replies = engine.generate([ask(number) for number in range(10)])
    assert [number for number, reply in enumerate(replies) if reply.error] == [3]
    assert "maximum context length" in replies[3].error
    assert len(server.bodies) == 10


@pytest.mark.parametrize("status", [401, 403, 404])
def test_permanent_errors_stop_the_run_immediately(create, status):
    server = create(StubServer, chat_answers(first_text), [None, (status, {}, "no")])
    engine = create(engine_over, server, batch_size=1)
    with pytest.raises(EngineError, match=f"{status}.*no"):
        engine.generate([ask(number) for number in range(5)])
    assert len(server.bodies) == 2


KEY = "sk-0123456789-secret"


def test_key_is_sent_but_never_logged(create, caplog):
    words = json.dumps({"error": {"message": f"bad key {KEY} of Bearer {KEY}"}})
    server = create(
        StubServer, chat_answers(first_text), [None, (500, {}, words), (401, {}, words)]
    )
    engine = create(engine_over, server, key=KEY)
    with caplog.at_level(logging.DEBUG):
        engine.generate([ask(1)])
        with pytest.raises(EngineError) as caught:
            engine.generate([ask(2)])
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert "bad key [key]" in str(caught.value)
    assert KEY not in caplog.text
    assert KEY not in repr(engine.__dict__)


@pytest.mark.parametrize("supports_n", [True, False])
def test_number_of_samples_is_as_requested(create, supports_n):
    def sample(body):
        count = body.get("n", 1) if supports_n else 1
        texts = [f"{body['seed']}+{index}" for index in range(count)]
        choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]
        return chat_reply("", choices=choices)

    server = create(StubServer, chat_answers(sample))
    engine = create(engine_over, server)
    (reply,) = engine.generate([ask(1, num_samples=3, temperature=0.7, seed=5)])
    assert reply.samples == (("5+0", "5+1", "5+2") if supports_n else ("5+0", "6+0", "7+0"))
    assert reply.tokens.prompt == (7 if supports_n else 21)
    assert len(server.bodies) == (1 if supports_n else 3)
    (greedy,) = engine.generate([ask(1, num_samples=3, seed=5)])
    assert greedy.samples == ("5+0",) * 3


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "hello"}, "hello"),
        ({"content": "hello", "reasoning_content": "hm"}, "<think>hm</think>\nhello"),
        (
            {"content": "hello", "reasoning": "hm </think> {}"},
            "<think>hm ‹/think› {}</think>\nhello",
        ),
        ({"content": None, "reasoning_content": "hm"}, "<think>hm</think>\n"),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": None}, ""),
        ({}, ""),
    ],
    ids=str,
)
def test_every_kind_of_message_becomes_text(create, message, text):
    answer = {"choices": [{"message": message, "finish_reason": "length"}], "usage": None}
    server = create(StubServer, chat_answers(lambda body: json.dumps(answer).encode()))
    (reply,) = create(engine_over, server).generate([ask(1)])
    assert reply.text == text
    assert reply.finish == "length"
    assert (reply.tokens.prompt, reply.tokens.reply, reply.tokens.cached) == (0, 0, 0)
    assert chat.without_thinking(text).strip() == text.rpartition("</think>")[2].strip()


def test_thinking_is_requested_and_counted(create):
    usage = {"prompt_tokens": 9, "completion_tokens": 30}
    usage["completion_tokens_details"] = {"reasoning_tokens": 21}
    usage["prompt_tokens_details"] = {"cached_tokens": 4}
    body = {"choices": [{"message": {"content": "{}", "reasoning": "so"}}], "usage": usage}
    models = [
        ("Qwen/Qwen3.5-9B", "enable_thinking", True),
        ("moonshotai/Kimi-K2.5", "thinking", False),
        ("made", "enable_thinking", False),
    ]
    names = [model for model, _, _ in models]
    server = create(StubServer, chat_answers(lambda _: json.dumps(body).encode(), names))
    options = {"engine": "openai", "base_url": (server.url,), "thinking": "off"}
    options |= {"thinking_budget": 64, "engine_option": ('extra_body={"top_k": 5}',)}
    for model, switch, hybrid in models:
        config = RunConfig(batch=True, model=model, **options)
        engine = create(partial(OPENAI, config, (), Workload(1)))
        (reply,) = engine.generate([ask(1, thinking_budget=config.thinking_budget)])
        assert reply.text == "<think>so</think>\n{}"
        assert (reply.tokens.reply, reply.tokens.thought, reply.tokens.cached) == (30, 21, 4)
        sent = server.bodies[-1]
        assert sent["chat_template_kwargs"] == {switch: False}
        assert (sent["top_k"], sent["thinking_token_budget"]) == (5, 64)
        assert sent["max_tokens"] == 512 + 64 + 2
        assert engine.capabilities.sequential == hybrid


def test_batches_and_faults_do_not_change_transcripts(create, tmp_path):
    """Replies depend on every word and pixel of the request, so a mixed-up reply would be noticed."""

    def wander(body):
        messages = json.dumps(body["messages"], sort_keys=True).encode()
        number = int(hashlib.sha256(messages).hexdigest()[:8], 16)
        step = {"rotation_angle_degrees": number % 180, "reasoning": str(number)}
        return chat_reply(json.dumps(step))

    chance = random.Random(1)
    script = [chance.choice([None, None, *FAULTS]) for _ in range(30)]
    transcript_sets = []
    for name, faults, size in [("one", (), 1), ("many", (), 16), ("faulty", script, 5)]:
        server = create(StubServer, chat_answers(wander), faults)
        folder = tmp_path / name
        folder.mkdir()
        options = {"engine": "openai", "model": "made", "base_url": (server.url,)}
        options |= {"engine_option": ("retries=20",), "batch_size": size, "max_turns": 3}
        run = start_run(make_config(folder, different_questions(folder, 4), **options))
        try:
            assert run.go(NullObserver())["counts"]["failed"] == 0
        finally:
            run.close()
        transcript_sets.append(transcripts(run.path))
    assert len({turn["reply"] for turns in transcript_sets[0].values() for turn in turns}) == 12
    assert transcript_sets[0] == transcript_sets[1] == transcript_sets[2]
