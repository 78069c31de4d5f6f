"""Native APIs against stub servers that validate every request with the SDKs' types."""

import json

import pytest
from conftest import mostly_slow
from factories.native_apis import STUBS, NativeServer
from factories.runs import NullObserver, make_config, transcripts

from render_agent.dialogue.events import CONTENT_FILTER, NO_USAGE, OMITTED
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.wording import general
from render_agent.errors import EngineError
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

PLACEHOLDER = general()("turn.omitted")
NAMES = ["anthropic", "gemini", "responses"]


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    monkeypatch.setattr("render_agent.engines.remote.remote_engine.INITIAL_DELAY_SECONDS", 0.01)


class Killed(Exception):
    """The run was killed."""


class KillAfter(NullObserver):
    """Kills a run after a number of turns."""

    def __init__(self, turns):
        self.remaining = turns

    def on_turn(self, state, turn):
        self.remaining -= 1
        if self.remaining == 0:
            raise Killed


def options(server, name, protocol):
    api = {"engine_option": ("api=responses",)} if name == "responses" else {}
    return {
        "engine": "openai" if name == "responses" else name,
        "model": "made",
        "base_url": (server.base_url,),
        "reply_protocol": protocol,
        "thinking": "on",
        "limit": 1,
        "image_size": (64, 64),
        "max_turns": 3,
        "batch_size": 1,
        **api,
    }


def key(request):
    return json.dumps(request, sort_keys=True)


@pytest.mark.parametrize("protocol", mostly_slow(["json", "tools"], "tools"))
@pytest.mark.parametrize("name", NAMES)
def test_resumed_run_sends_the_same_requests_and_blocks(name, protocol, tmp_path):
    """Transcripts depend on every byte of the requests."""
    with NativeServer(name) as server:
        complete = start_run(
            make_config(tmp_path / "a", "rooms", **options(server, name, protocol))
        )
        try:
            complete.go(NullObserver())
        finally:
            complete.close()
        assert not server.problems
        expected, server.requests = list(map(key, server.requests)), []

        run = start_run(make_config(tmp_path / "b", "rooms", **options(server, name, protocol)))
        try:
            with pytest.raises(Killed):
                run.go(KillAfter(2))
        finally:
            run.close()
        resumed = resume_run(RunData(run.path), {})
        try:
            results = resumed.go(NullObserver())
        finally:
            resumed.close()
        assert not server.problems
        assert set(map(key, server.requests)) == set(expected)
    assert transcripts(run.path) == transcripts(complete.path)
    turns = [turn for state in RunData(run.path).states for turn in state.turns]
    assert all(turn.blocks for turn in turns)
    assert all(turn.reply.startswith("<think>hm") for turn in turns)
    assert all(isinstance(t.action, Action) and not t.action.repaired for t in turns)
    for t in turns:
        counts = (t.tokens.prompt, t.tokens.reply, t.tokens.cached, t.tokens.thought)
        requests = 1 if t.restated is None else 2
        assert counts == tuple(requests * count for count in (14, 9, 7, 4))
    last = max(server.requests, key=lambda body: len(key(body)))
    sent = server.stub.opaque(last)
    logged = [
        block for state in RunData(run.path).states for t in state.turns for block in t.blocks
    ]
    assert sent
    assert all(comparable(block) in list(map(comparable, logged)) for block in sent)
    assert results["counts"]["failed"] == 0


def run_against(server, name, protocol, output, **overrides):
    """Return the turns of a run in their order, and the results."""
    config = make_config(output, "rooms", **options(server, name, protocol) | overrides)
    run = start_run(config)
    try:
        results = run.go(NullObserver())
    finally:
        run.close()
    assert not server.problems
    return [turn for state in RunData(run.path).states for turn in state.turns], results


@pytest.mark.parametrize("protocol", ["json", "tools"])
@pytest.mark.parametrize("name", NAMES)
def test_every_request_contains_the_blocks_of_all_earlier_replies(name, protocol, tmp_path):
    """Belief probes, omitted images and switched-off feedback do not change this."""
    overrides = {"probe": ("map",), "history": "1", "feedback": "off", "no_restate": True}
    with NativeServer(name) as server:
        turns, _ = run_against(server, name, protocol, tmp_path, **overrides)
    blocks = [list(map(comparable, turn.blocks)) for turn in turns]
    images = [len(turn.image_files) for turn in turns]
    assert all(blocks)
    assert len(server.requests) == 2 * len(turns), "a probe follows every turn"
    for number, request in enumerate(server.requests):
        turn, replies = number // 2, (number + 1) // 2
        sent = list(map(comparable, server.stub.opaque(request)))
        assert sent == [block for earlier in blocks[:replies] for block in earlier]
        assert key(request).count(PLACEHOLDER) == sum(images[:turn])
        assert key(request).count("iVBORw0KGgo") == images[turn]  # a PNG in base64


def comparable(block):
    """Return a block as text with sorted keys and in the standard alphabet of base64."""
    return key(block).replace("+", "-").replace("/", "_")


def run_with(tmp_path, name, script):
    """Return the turns and the results of a run in which the server starts with these answers."""
    with NativeServer(name, script) as server:
        return run_against(server, name, "json", tmp_path, max_turns=2)


def events_of(turn):
    """Return the events of a turn, except those about fields that an API does not have."""
    return [event for event in turn.events if not event.startswith(OMITTED)]


OVERLOADED = {
    "anthropic": (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
    "gemini": (503, {"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}),
    "responses": (503, {"error": {"code": "server_error", "message": "busy"}}),
}
UNFINISHED = {
    "anthropic": [b"", {"type": "message", "content": [], "stop_reason": None}],
    "gemini": [b"", {"candidates": []}, {"candidates": [{"finishReason": "OTHER"}]}],
    "responses": [b"", {"output": [], "status": "in_progress"}, {"output": [], "status": "failed"}],
}
EXHAUSTED = {
    "anthropic": (400, {"error": {"message": "Your credit balance is too low to access the API"}}),
    "gemini": (429, {"error": {"code": 429, "message": "You exceeded your current quota"}}),
    "responses": (429, {"error": {"code": "insufficient_quota", "message": "quota"}}),
}


@pytest.mark.parametrize("name", NAMES)
def test_server_faults_are_retried(name, tmp_path):
    status, body = OVERLOADED[name]
    limited = (429, {"retry-after": "0"}, {"error": {"message": "rate limit"}})
    stream = b"event: error\ndata: " + json.dumps(body).encode()
    faults = [(status, {}, body), limited, "cut", body, stream, *UNFINISHED[name]]
    turns, results = run_with(tmp_path, name, faults)
    assert results["counts"]["failed"] == 0
    assert events_of(turns[0]) == ["retried"] * len(faults)


@pytest.mark.parametrize("name", NAMES)
def test_exhausted_quota_ends_the_run_without_retries(name, tmp_path):
    status, body = EXHAUSTED[name]
    with NativeServer(name, [(status, {}, body)] * 9) as server:
        run = start_run(make_config(tmp_path, "rooms", **options(server, name, "json")))
        try:
            with pytest.raises(EngineError, match=str(status)):
                run.go(NullObserver())
        finally:
            run.close()
    assert len(server.requests) == 1


REFUSALS = {
    "anthropic": lambda stub: stub.message([{"type": "text", "text": "No."}], "refusal"),
    "gemini": lambda stub: stub.message([], "SAFETY"),
    "responses": lambda stub: stub.message(
        [{**stub.text_item(""), "content": [{"type": "refusal", "refusal": "No."}]}]
    ),
}
EMPTY = {
    "anthropic": lambda stub: stub.message([], "end_turn"),
    "gemini": lambda stub: stub.message([], "STOP"),
    "responses": lambda stub: stub.message([]),
}
CUT = {
    "anthropic": lambda stub: stub.message([{"type": "text", "text": "I"}], "max_tokens"),
    "gemini": lambda stub: stub.message([{"text": "I"}], "MAX_TOKENS"),
    "responses": lambda stub: stub.message(
        [stub.text_item("I")],
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    ),
}
UNCOUNTED = {
    "anthropic": lambda stub: stub.message([{"type": "text", "text": "I"}], "end_turn", usage=None),
    "gemini": lambda stub: stub.message([{"text": "I"}], "STOP", usageMetadata=None),
    "responses": lambda stub: stub.message([stub.text_item("I")], usage=None),
}


@pytest.mark.parametrize(
    ("answers", "events", "was_cut"),
    [
        (REFUSALS, [CONTENT_FILTER], False),
        (EMPTY, [], False),
        (CUT, [], True),
        (UNCOUNTED, [NO_USAGE], False),
    ],
    ids=["refusal", "empty", "length", "no usage"],
)
@pytest.mark.parametrize("name", NAMES)
def test_reply_without_an_answer_counts_as_malformed(name, answers, events, was_cut, tmp_path):
    turns, results = run_with(tmp_path, name, [answers[name](STUBS[name]())])
    first = turns[0]
    assert isinstance(first.action, Malformed)
    assert (first.finish == "length") is was_cut
    assert events_of(first) == events
    assert results["counts"]["failed"] == 0
    assert len(turns) > 1
