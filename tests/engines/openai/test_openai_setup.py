"""Checks before a run with servers: addresses, keys, models, options."""

import contextlib
import json
import re
import socket
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from factories.runs import NullObserver, finish_run, make_config, make_questions
from factories.servers import LOOPBACK, StubServer, chat_answers, chat_reply, free_port

from render_agent.cli.run import run_with_progress
from render_agent.engines.make_engine import describe_engine
from render_agent.engines.openai.chat_completions import OpenAIOptions
from render_agent.engines.remote import http_client
from render_agent.engines.remote.chat_api import read_options
from render_agent.engines.remote.endpoints import OPENAI, find_endpoints, parse_endpoint
from render_agent.errors import EngineError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.report.sentences.facts import request_facts
from render_agent.runs.build import make_engine
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

pytestmark = pytest.mark.skipif(
    find_spec("openai") is None, reason="the extra openai is not installed"
)

KEY = "sk-0123456789-secret"
DONE = json.dumps({"answer": "A", "done": True})


def config(url=None, **overrides):
    urls = {"base_url": (url,)} if url else {}
    return RunConfig(batch=True, **{"engine": "openai", "model": "made", **urls, **overrides})


@pytest.fixture
def server():
    with StubServer(chat_answers(lambda body: chat_reply(DONE))) as server:
        yield server


def test_description_contains_what_the_servers_report(monkeypatch):
    answer = chat_answers(lambda body: b"")
    model = {"id": "made", "owned_by": "vllm", "root": "org/made", "max_model_len": 4096, "x": 1}

    def handler(method, path, body):
        bodies = {"/v1/models": {"data": [model, {"id": "other"}]}, "/version": {"version": "0.9"}}
        if path not in bodies:
            return answer(method, path, body)
        return 200, {}, json.dumps(bodies[path]).encode()

    with StubServer(handler) as server:
        description = describe_engine(config(server.url))
        reported = {"owned_by": "vllm", "max_model_len": 4096, "root": "org/made", "version": "0.9"}
        servers = [{"url": server.url, **reported}]
        expected = {"name": "openai", "model": "made", "servers": servers, "hybrid": False}
        assert description == expected
        monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("//", "//user:pass@"))
        assert describe_engine(config()) == description
        assert "Basic " in server.headers[-1]["authorization"]


@pytest.mark.parametrize(
    ("info", "declared"),
    [
        ({"enable_deterministic_inference": True}, True),
        ({"vllm_env": {"VLLM_BATCH_INVARIANT": True}}, True),
        ({"enable_deterministic_inference": False}, False),
        ({"vllm_env": {"VLLM_BATCH_INVARIANT": "0"}}, False),
        (None, False),
        ([1], False),
    ],
)
def test_report_says_whether_the_server_declares_that_replies_are_reproducible(
    tmp_path, info, declared
):
    answer = chat_answers(lambda body: chat_reply(DONE))

    def handler(method, path, body):
        bodies = {"/version": {"version": "0.9"}, "/server_info": info}
        if bodies.get(path) is None:
            return answer(method, path, body)
        return 200, {}, json.dumps(bodies[path]).encode()

    with StubServer(handler) as server:
        options = {"engine": "openai", "model": "made", "base_url": (server.url,), "max_turns": 1}
        run = start_run(make_config(tmp_path, make_questions(tmp_path, 1), **options))
        results = finish_run(run)
        assert all("seed" in body for body in server.bodies)
    (record,) = RunData(run.path).record["engine"]["servers"]
    assert record.get("deterministic", False) is declared
    assert results["reproducible"] is declared
    fact = request_facts(run.config, results)["Reproducible"]
    assert fact.startswith("bit-for-bit" if declared else "not bit-for-bit")


def test_missing_package_is_named(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(SetupError, match=r"render_agent\[openai\]"):
        describe_engine(config(server.url))


@pytest.mark.parametrize("function", [describe_engine, lambda config: make_engine(config, [])])
def test_unreachable_server_is_named(function):
    url = f"http://{LOOPBACK}:{free_port()}/v1"
    with pytest.raises(SetupError, match=url) as caught:
        function(config(url))
    assert "\n" not in str(caught.value)


def test_unknown_host_is_named(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(SetupError, match=r"no-such-host\.invalid"):
        describe_engine(config("http://no-such-host.invalid/v1"))


def test_default_model_that_is_not_listed_is_rejected(server):
    with pytest.raises(SetupError, match=r"Qwen/.*made.*--model"):
        describe_engine(config(server.url, model=None))


@pytest.mark.parametrize("name", ["made:latest", "made:nitro", "my-deployment"])
def test_named_model_that_is_not_listed_is_a_note(server, name):
    description = describe_engine(config(server.url, model=name))
    assert name in description["note"]
    assert "made" in description["note"]
    assert description["servers"] == [{"url": server.url}]
    make_engine(config(server.url, model=name), []).close()


def test_refused_model_error_lists_the_models_of_the_server(tmp_path):
    def handler(method, path, body):
        if method == "POST":
            return 404, {}, b'{"error": {"message": "no model of that name"}}'
        return chat_answers(lambda body: b"")(method, path, body)

    with StubServer(handler) as server:
        options = {"engine": "openai", "model": "typo", "base_url": (server.url,)}
        run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), **options))
        with pytest.raises(EngineError, match=r"no model of that name.*made"):
            run.go(NullObserver(), make_engine)
        run.close()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, "OPENAI_API_KEY"),
        (403, "OPENAI_API_KEY"),
        (503, "503"),
    ],
)
def test_rejection_names_the_remedy_and_never_the_key(status, expected, monkeypatch):
    with StubServer(lambda *_: (status, {}, f"no, {KEY}".encode())) as server:
        with pytest.raises(SetupError, match=expected):
            describe_engine(config(server.url))
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with pytest.raises(SetupError) as caught:
            describe_engine(config(server.url))
        assert KEY not in str(caught.value)


@pytest.mark.parametrize("variable", [None, "OPENAI_API_KEY", "RENDER_AGENT_API_KEY"])
def test_rejected_key_is_named_by_its_variable(variable, monkeypatch):
    if variable:
        monkeypatch.setenv(variable, KEY)
    with StubServer(lambda *_: (401, {}, b"{}")) as server, pytest.raises(SetupError) as caught:
        describe_engine(config(server.url))
    message = str(caught.value)
    names = [variable] if variable else ["RENDER_AGENT_API_KEY", "OPENAI_API_KEY"]
    assert re.findall(r"\w+_API_KEY", message) == names


@pytest.mark.parametrize(
    "listed",
    [
        (404, {}, b"no"),
        (405, {}, b""),
        (500, {}, b"oh"),
        (200, {}, b"[]"),
        (200, {}, b'{"data": []}'),
    ],
)
def test_server_that_lists_no_models_is_accepted(listed):
    with StubServer(lambda *_: listed) as server:
        assert describe_engine(config(server.url))["servers"] == [{"url": server.url}]


def test_address_precedence_is_option_environment_default(monkeypatch):
    with pytest.raises(SetupError, match="--base-url"):
        find_endpoints([])
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (hosted,) = find_endpoints([])
    assert hosted.url == OPENAI.url
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1/")
    assert [entry.url for entry in find_endpoints([])] == ["http://localhost:1/v1"]
    addresses = ["http://a:8000/v1", "http://b:8000/v1", "http://a:8000/v1/"]
    endpoints = find_endpoints(addresses)
    assert [entry.url for entry in endpoints] == ["http://a:8000/v1", "http://b:8000/v1"]
    assert endpoints[0].headers == {"Authorization": f"Bearer {KEY}"}
    monkeypatch.setenv("RENDER_AGENT_API_KEY", f" {KEY}2\n")
    assert find_endpoints(addresses)[0].headers == {"Authorization": f"Bearer {KEY}2"}


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000/v1",
        "ftp://a/v1",
        "http:///v1",
        "http://a:b/v1",
        "http://a/v1?k=v",
        "a",
        "http://[::1",
    ],
)
def test_malformed_addresses_are_rejected(url):
    with pytest.raises(UsageError, match="--base-url"):
        find_endpoints([url])


def test_password_in_base_url_is_rejected():
    with pytest.raises(UsageError, match="OPENAI_BASE_URL") as caught:
        find_endpoints(["http://me:hidden@localhost/v1"])
    assert "hidden" not in str(caught.value)
    assert "hidden" not in repr(parse_endpoint("http://me:hidden@localhost/v1", None))


@pytest.mark.parametrize("key", ["sk-\x01x", "sk-é", "two words", "sk-\nx"])
def test_malformed_key_is_rejected_without_being_shown(key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(SetupError, match="OPENAI_API_KEY") as caught:
        find_endpoints(["http://localhost/v1"])
    assert key[:3] not in str(caught.value)


def test_proxy_is_bypassed_on_localhost(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://{LOOPBACK}:{free_port()}")
    monkeypatch.setenv("http_proxy", f"http://{LOOPBACK}:{free_port()}")
    engine = make_engine(config(server.url), [])
    engine.close()


@pytest.mark.parametrize(
    "options",
    [
        {"retrys": 3},
        {"retries": -1},
        {"retries": 2.5},
        {"timeout": 0},
        {"timeout": "long"},
        {"timeout": True},
        {"timeout": float("nan")},
        {"max_tokens_field": "tokens"},
        {"extra_body": "top_k=3"},
        {"image_detail": 3},
    ],
    ids=str,
)
def test_invalid_option_is_a_usage_error(options):
    with pytest.raises(UsageError, match=f"--engine-option {next(iter(options))}"):
        read_options(OpenAIOptions, options, "openai")


def test_options_are_parsed_as_yaml(server):
    pairs = ("timeout=5", "retries=0", "extra_body={top_k: 20}", "omit=[seed]", "image_detail=low")
    engine = make_engine(config(server.url, engine_option=pairs), [])
    engine.close()
    assert engine.api.options == OpenAIOptions(
        timeout=5, retries=0, extra_body={"top_k": 20}, omit=["seed"], image_detail="low"
    )


@pytest.mark.parametrize(
    "option",
    ["dtype=float32", "device=cpu", "revision=x", "tensor_parallel=2", "max_model_len=4096"],
)
def test_options_that_the_server_determines_are_rejected(server, option):
    name, _, value = option.partition("=")
    overrides = {name: int(value) if value.isdigit() else value}
    flag = "--" + name.replace("_", "-")
    with pytest.raises(UsageError, match=flag):
        describe_engine(config(server.url, **overrides))


def test_device_of_a_verifier_is_accepted(server):
    describe_engine(config(server.url, agent="lookahead:2", verifier=("embedding",), device="cpu"))


def test_no_file_of_a_run_contains_the_key(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    error = json.dumps({"error": {"message": f"what is {KEY}?"}})
    script = [(500, {}, error), (400, {}, error), (429, {}, error)]
    with StubServer(chat_answers(lambda body: chat_reply(DONE)), script) as server:
        options = {"engine": "openai", "model": "made", "base_url": (server.url,)}
        options |= {"verbose": True, "max_turns": 2}
        run = start_run(make_config(tmp_path, make_questions(tmp_path, 4), **options))
        run_with_progress(run)
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    files = [file for file in Path(tmp_path).rglob("*") if file.is_file()]
    assert {"config.json", "run.log", "turns.jsonl", "results.json"} <= {
        file.name for file in files
    }
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert "[key]" in (run.path / "run.log").read_text("utf-8")
    output = capfd.readouterr()
    assert KEY not in output.out + output.err


@pytest.mark.parametrize("address", ["http://localhost:1/v1", "http://my_node-3:8000/v1", "http://bücher.example/v1", "http://[::1]:8000/v1"])  # fmt: skip
def test_all_kinds_of_addresses_are_accepted(address):
    assert find_endpoints([address])[0].host


def slow_server(beginning, body):
    """Start a server that sends `body` repeatedly and never ends; return its address and a function to close it."""
    listener = socket.create_server((LOOPBACK, 0))
    stopped = threading.Event()

    def serve():
        while not stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(beginning)
                while not stopped.wait(0.02):
                    connection.sendall(body)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def close():
        stopped.set()
        listener.shutdown(socket.SHUT_RDWR)  # close alone does not interrupt accept
        listener.close()
        thread.join()

    return f"http://{LOOPBACK}:{listener.getsockname()[1]}/v1", close


@pytest.mark.parametrize("where", ["body", "head"])
def test_endless_slow_response_times_out(where, monkeypatch):
    monkeypatch.setattr(http_client, "LOOK_UP_SECONDS", 0.4)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    if where == "body":
        head += b"transfer-encoding: chunked\r\n\r\n"
    url, close = slow_server(head, b"1\r\n \r\n" if where == "body" else b"x")
    try:
        with pytest.raises(SetupError, match=url):
            describe_engine(config(url, engine_option=("connect_timeout=0.3",)))
    finally:
        close()


def test_redirect_to_another_server_is_not_followed_during_a_run(tmp_path):
    target: list[str] = []

    def handler(method, path, body):
        if target and path.endswith("completions"):
            return 307, {"Location": f"{target[0]}/chat/completions"}, b""
        return chat_answers(lambda body: chat_reply(DONE))(method, path, body)

    with (
        StubServer(chat_answers(lambda body: chat_reply(DONE))) as other,
        StubServer(handler) as server,
    ):
        options = {"engine": "openai", "model": "made", "base_url": (server.url,)}
        run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), **options))
        target.append(other.url)
        with pytest.raises(EngineError, match=other.url):
            run.go(NullObserver(), make_engine)
        assert not other.bodies
        run.close()


def test_response_size_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(http_client, "MAX_RESPONSE_BYTES", 1 << 20)
    reply = json.dumps({"answer": "A", "done": True, "reasoning": "x" * 3_000_000})
    with StubServer(chat_answers(lambda body: chat_reply(reply))) as server:
        options = {"engine": "openai", "model": "made", "base_url": (server.url,)}
        options |= {"engine_option": ("retries=0",), "max_new_tokens": 64}
        run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), **options))
        results = run.go(NullObserver(), make_engine)
        run.close()
    assert results["counts"]["failed"] == 2
    assert f"{1 << 20:,} bytes" in (run.path / "turns.jsonl").read_text()
