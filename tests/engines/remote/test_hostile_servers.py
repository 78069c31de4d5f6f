"""Odd and hostile responses: each is the fault of its request, in linear time, and never ends a run."""

import json
import signal
import subprocess
import sys
import time

import pytest
from factories.batch_apis import BatchServer
from factories.models import load_random_image
from factories.runs import NullObserver, make_config, make_questions
from factories.servers import StubServer

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.openai.chat_completions import ChatCompletions, OpenAIOptions
from render_agent.engines.remote.api_error import ApiError, Fault
from render_agent.engines.remote.endpoints import parse_endpoint
from render_agent.engines.remote.remote_engine import RemoteEngine
from render_agent.engines.remote.response_bodies import normalize
from render_agent.errors import EngineError
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

NAMES = ["anthropic", "chat", "gemini", "responses"]
GOOD = '{"answer": "B", "done": true}'


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    """Poll and retry immediately."""
    monkeypatch.setattr("render_agent.engines.remote.remote_engine.INITIAL_DELAY_SECONDS", 0.01)
    monkeypatch.setattr("render_agent.engines.remote.batch_jobs.FIRST_POLL_SECONDS", 0.01)


def thought_and_text(name, text):
    """Return a reply with a thought and a text."""
    return {
        "anthropic": [
            {"type": "thinking", "thinking": text, "signature": "c2ln"},
            {"type": "text", "text": text},
        ],
        "chat": {"reasoning_content": text, "content": text},
        "gemini": [{"text": text, "thought": True}, {"text": text, "thoughtSignature": "c2ln"}],
        "responses": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]},
            {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
            | {"content": [{"type": "output_text", "text": text, "annotations": []}]},
        ],
    }[name]  # fmt: skip


def tool_call(name, arguments, call_id="call_1"):
    """Return a reply that calls a tool; APIs differ in whether arguments are JSON or text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": text}}
    return {
        "anthropic": [{"type": "tool_use", "id": call_id, "name": "look", "input": arguments}],
        "chat": {"content": None, "tool_calls": [call]},
        "gemini": [{"functionCall": {"name": "look", "args": arguments}}],
        "responses": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "look"}
            | {"arguments": text},
        ],
    }[name]


def body_of(name, reply):
    """Return the body of a response; "@" becomes a lone surrogate."""
    usage = {"input_tokens": 5, "output_tokens": 3, "prompt_tokens": 5, "promptTokenCount": 5}
    body = {
        "anthropic": {"type": "message", "content": reply, "stop_reason": "end_turn"},
        "chat": {"choices": [{"message": reply, "finish_reason": "stop"}]},
        "gemini": {"candidates": [{"content": {"parts": reply}, "finishReason": "STOP"}]},
        "responses": {"output": reply, "status": "completed"},
    }[name]
    counts = {"gemini": "usageMetadata"}.get(name, "usage")
    return json.dumps({**body, counts: usage}).replace("@", "\\ud800").encode()


def nested(depth):
    return {"view": nested(depth - 1)} if depth else 1


ODD_REPLIES = {
    "surrogate in text": lambda name: thought_and_text(name, '{"reasoning": "@", "view": "@"}'),
    "surrogate in a call": lambda name: tool_call(name, {"view": "top@", "@": "x"}),
    "surrogate in an id": lambda name: tool_call(name, {"view": "top"}, "call_@"),
    "NUL": lambda name: thought_and_text(name, "a\0b"),
    "arguments of another type": lambda name: tool_call(name, "top"),
    "a list of arguments": lambda name: tool_call(name, [1, 2]),
    "no id": lambda name: tool_call(name, {"view": "top"}, None),
    "nothing": lambda name: {} if name == "chat" else [{"type": "message", "content": []}],
    "unknown parts": lambda name: (
        {"content": [{"type": 3}, 4]} if name == "chat" else [{"kind": 3}, {"type": 5}, {"text": 7}]
    ),
    "nested arguments": lambda name: tool_call(name, nested(60)),
}


def options(server, name, **more):
    native = {"engine_option": ("api=responses",)} if name == "responses" else {}
    return {
        "engine": "openai" if name in ("chat", "responses") else name,
        "model": "made",
        "base_url": (server.base_url,),
        "limit": 1,
        "max_turns": 3,
        "max_batched_turns": 2,
        **native,
        **more,
    }


def play(folder, server, name, **more):
    folder.mkdir(exist_ok=True)
    config = make_config(folder, make_questions(folder, 3), **options(server, name, **more))
    return go(start_run(config))


def go(run):
    try:
        return run, run.go(NullObserver())
    finally:
        run.close()


@pytest.mark.parametrize("protocol", ["json", "tools"])
@pytest.mark.parametrize("name", NAMES)
def test_odd_replies_do_not_end_a_run(name, protocol, tmp_path):
    """A question per kind: the reply is logged, read from the log, and sent back in all later turns."""
    script = [body_of(name, make(name)) for make in ODD_REPLIES.values()]
    with BatchServer(name, script) as server:
        _, results = play(
            tmp_path, server, name, max_turns=len(script) + 2, reply_protocol=protocol
        )
        assert not server.problems
    assert results["counts"]["failed"] == 0


@pytest.mark.parametrize("kind", ["surrogate in text", "surrogate in a call"])
@pytest.mark.parametrize("name", NAMES)
def test_logged_surrogate_can_be_sent_again(name, kind, tmp_path):
    class Killed(Exception):
        pass

    class KillAfterFirst(NullObserver):
        def on_turn(self, state, turn):
            raise Killed

    with BatchServer(name, [body_of(name, ODD_REPLIES[kind](name))]) as server:
        config = make_config(
            tmp_path,
            make_questions(tmp_path, 3),
            **options(server, name, reply_protocol="tools"),
        )
        run = start_run(config)
        with pytest.raises(Killed):
            run.go(KillAfterFirst())
        run.close()
        assert "\\ud800" in (run.path / "turns.jsonl").read_text("utf-8")
        _, results = go(resume_run(RunData(run.path), {}))
        assert not server.problems
    assert results["counts"]["failed"] == 0


def ask(turn=0):
    messages = [chat.message("user", chat.text("Which?"), chat.image_piece("32x32-1.png"))]
    return Request(f"q{turn}", 0, messages, load_random_image)


HUGE = "5" * 5000
ODD_ERRORS = [
    (429, {"retry-after": "Wed, 21 Oct 99999999999 07:28:00 GMT"}, b"{}"),
    (429, {"retry-after": "Wed, 21 Oct 10000 07:28:00 GMT"}, b"{}"),
    (429, {"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"}, b"{}"),
    (429, {"retry-after": HUGE}, b'{"error": "retryDelay: "%s9s""}' % (b"9" * 400)),
    (200, {}, b'{"error": {"code": "%s"}}' % HUGE.encode()),
    (200, {}, b'{"error": {"code": %s}}' % HUGE.encode()),
    (200, {}, b'{"error": {"code": "000000500123", "message": "odd"}}'),
    (200, {}, '{"error": {"code": "٥٠٠", "message": "odd"}}'.encode()),
    (400, {}, b'{"error": {"message": "\\ud800"}}'),
    (200, {}, b'{"choices": ' + b"[" * 900 + b"]" * 900 + b"}"),
    (200, {}, b'{"choices": [{"message": {"content": ' + b"[" * 400 + b"]" * 400 + b"}}]}"),
]


@pytest.mark.parametrize("response", ODD_ERRORS, ids=lambda response: str(response)[:50])
def test_odd_errors_are_the_fault_of_their_request(response):
    """After the odd answer, which may be retried, the same engine answers the next request."""
    script = [(200, {}, body_of("chat", {"content": GOOD})), response]
    with BatchServer("chat", script) as server:
        server.stub.validate = lambda body: None
        api = ChatCompletions("made", OpenAIOptions(retries=1))
        engine = RemoteEngine(api, [parse_endpoint(server.base_url, None)], 1)
        try:
            assert engine.generate([ask()])[0].text == GOOD
            (reply,) = engine.generate([ask(1)])
            assert reply.error is None or server.base_url in reply.error
            assert (reply.error or "").isprintable()
            assert engine.generate([ask(2)])[0].error is None
        finally:
            engine.close()


@pytest.mark.parametrize(
    ("code", "status"),
    [("000000500123", 500), ("429", 429), (404, 404), ("4290", 500), (500123, 500), (True, 500)],
)
def test_only_a_status_is_taken_for_one(code, status):
    assert (
        normalize(200, json.dumps({"error": {"code": code, "message": "odd"}}).encode())[0]
        == status
    )


def test_year_beyond_any_date_counts_as_no_statement():
    late = ApiError("", 429, "", {"retry-after": "Wed, 21 Oct 99999999999 07:28:00 GMT"})
    assert (late.retry_after, late.fault) == (None, Fault.RATE_LIMITED)


def growth(function, make, size):
    """Return how many times longer a function takes for an input eight times as large, at best of some tries."""

    def seconds(argument):
        best = float("inf")
        for _ in range(3):
            start = time.thread_time()
            function(argument)
            best = min(best, time.thread_time() - start)
        return best

    return seconds(make(8 * size)) / seconds(make(size))


def deltas(count):
    chunk = {"choices": [{"index": 0, "delta": {"content": "a" * 1000, "reasoning": "b"}}]}
    return b"".join([b"data: " + json.dumps(chunk).encode() + b"\n\n"] * count)


def call_deltas(count):
    call = {"index": 0, "function": {"name": "", "arguments": "a" * 1000}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    return b"".join([b"data: " + json.dumps(chunk).encode() + b"\n\n"] * count)


@pytest.mark.parametrize("make", [deltas, call_deltas])
def test_event_streams_take_linear_time(make):
    """Quadratic time would make the factor 64."""
    assert growth(lambda body: normalize(200, body), make, 500) < 20
    _, body = normalize(200, make(1000))
    message = json.loads(body)["choices"][0]["message"]
    call = message.get("tool_calls", [{"function": {"arguments": "a" * 10**6}}])[0]
    assert call["function"]["arguments"] == message.get("content", "a" * 10**6)


def read_error(body):
    status, content = normalize(500, body)
    error = ApiError("", 400 if status == 500 else status, content.decode(), {})
    return error.fault, error.retry_after, error.describe(ENDPOINT)


ENDPOINT = parse_endpoint("http://localhost/v1", None)
PROGRAM = (sys.executable, "-m", "render_agent")
UNITS = [
    "error parsing tool call: raw='",
    "failed to parse input at pos 1: ",
    "try again in 1h",
    "prompt exceed ",
    "not support the ",
    "/a",
    " ",
    "a",
]


@pytest.mark.parametrize("unit", UNITS)
def test_error_texts_take_linear_time(unit):
    """Quadratic time would make the factor 64; the phrases are looked up in the beginning of a text only."""

    def make(size):
        return json.dumps({"error": {"message": unit * (size // len(unit))}}).encode()

    assert growth(read_error, make, 100_000) < 20


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_signal_stops_a_run_that_reads_huge_errors(number, code, tmp_path):
    """Every answer is an error of 15 MB, which the run is reading or waiting to retry when the signal arrives."""
    text = "".join(unit * (15 * 10**6 // len(UNITS) // len(unit)) for unit in UNITS)
    body = json.dumps({"error": {"message": text}}).encode()

    def answer(method, path, request):
        return (500, {}, body) if method == "POST" else (200, {}, b'{"data": [{"id": "made"}]}')

    questions = make_questions(tmp_path, 2)
    with StubServer(answer) as server:
        words = ("--batch", "--benchmark", questions, "--engine", "openai", "--model", "made")
        words += ("--base-url", server.url, "--sight-check", "off")
        with subprocess.Popen([*PROGRAM, *words], cwd=tmp_path, stderr=subprocess.PIPE) as process:
            while not server.bodies:
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.05)
            process.send_signal(number)
            _, err = process.communicate(timeout=120)
    assert process.returncode == code
    assert b"--continue" in err
    assert b"Traceback" not in err


BAD_IDS = ["j" * 200_000, "batch_\ud800", 7]


@pytest.mark.parametrize("name", ["anthropic", "chat", "gemini"])
def test_odd_id_of_a_job_is_the_fault_of_its_requests(name, tmp_path):
    """The requests are submitted again; the run folder never has the id."""
    with BatchServer(name) as server:
        shown, bad_ids = server.jobs_api.shown, [*BAD_IDS]

        def show(job, server):
            answer = shown(job, server)
            return answer | dict.fromkeys(("id", "name"), bad_ids.pop()) if bad_ids else answer

        server.jobs_api.shown = show
        run, results = play(tmp_path, server, name, batch_jobs=True)
    assert results["counts"]["failed"] == 0
    lines = [*map(json.loads, (run.path / "batch_jobs.jsonl").read_text().splitlines())]
    assert [line["job"] for line in lines] == [*server.jobs][len(BAD_IDS) :]


@pytest.mark.parametrize("name", ["anthropic", "chat", "gemini"])
@pytest.mark.parametrize("job_id", ["j" * 200_000, "batch_\ud800"], ids=["long", "surrogate"])
def test_logged_odd_id_of_a_job_does_not_stop_resuming(name, job_id, tmp_path, monkeypatch):
    monkeypatch.setattr("render_agent.engines.remote.batch_jobs.MAX_POLL_FAILURES", 1)
    with BatchServer(name) as server:
        server.jobs_api.job_of = lambda path: "none"
        with pytest.raises(EngineError):
            play(tmp_path, server, name, batch_jobs=True)
        del server.jobs_api.job_of
        (folder,) = (tmp_path / "runs").iterdir()
        file = folder / "batch_jobs.jsonl"
        line = {**json.loads(file.read_text()), "job": job_id}
        file.write_text(json.dumps(line) + "\n")
        _, results = go(resume_run(RunData(folder), {}))
    assert results["counts"]["failed"] == 0
