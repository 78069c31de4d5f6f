"""Runs with a real OpenAI-compatible server and a small model, with and without faults."""

from dataclasses import replace
from importlib.util import find_spec

import pytest
from factories.models import bundled_model
from factories.runs import NullObserver, make_config, play, transcripts
from factories.servers import StubServer, forward_to, model_server

from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model
from render_agent.errors import EngineError
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

pytestmark = [
    pytest.mark.skipif(find_spec("openai") is None, reason="the extra openai is not installed"),
    *(
        pytest.mark.skipif(find_spec(name) is None, reason=f"transformers serve needs {name}")
        for name in ("fastapi", "uvicorn")
    ),
]

QUESTIONS = {"id": ("20", "23", "26", "29", "31", "33")}  # about the bundled rooms, six types
COUNT, TURNS = len(QUESTIONS["id"]), 2
TOKENS = 40  # enough for a reply; the server also reports `length` if the last allowed token ends the reply
QUICK = ("retries=8", "timeout=120")


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    """Make the SDK retry immediately."""
    monkeypatch.setattr("render_agent.engines.remote.remote_engine.INITIAL_DELAY_SECONDS", 0.02)


@pytest.fixture(scope="module")
def server():
    with model_server(bundled_model()) as server:
        yield server


def options(server, *urls, **overrides):
    """Return the options of a small run with servers at these addresses."""
    defaults = {
        "engine": "openai",
        "model": server.model,
        "base_url": urls or (server.url,),
        "engine_option": QUICK,
        "max_turns": TURNS,
        "max_new_tokens": TOKENS,
        **QUESTIONS,
    }
    return defaults | overrides


def run_over(folder, server, *urls, **overrides):
    """Run the questions to completion; return the run folder and the results."""
    folder.mkdir(exist_ok=True)
    run = start_run(make_config(folder, "rooms", **options(server, *urls, **overrides)))
    try:
        return run.path, run.go(NullObserver())
    finally:
        run.close()


@pytest.fixture(scope="module")
def undisturbed(server, tmp_path_factory):
    """The transcripts of a run without faults."""
    path, results = run_over(tmp_path_factory.mktemp("undisturbed"), server)
    assert results["counts"]["failed"] == 0
    return transcripts(path)


class UnconstrainedEngine(TransformersEngine):
    """Ignores schemas, like the server of these tests."""

    def submit(self, requests):
        super().submit([replace(request, schema=None) for request in requests])


@pytest.mark.slow
def test_server_gives_the_same_replies_as_the_model_in_this_process(server, undisturbed, tmp_path):
    engine = UnconstrainedEngine(
        open_model(server.model, dtype="float32", device="cpu"), batch_size=1
    )
    same_options = {"max_turns": TURNS, "max_new_tokens": TOKENS, **QUESTIONS}
    path, _ = play(tmp_path, "rooms", engine, **same_options)
    local = transcripts(path)

    def comparable(turns):  # the server strips a space at the end of a reply that was cut off
        return [(turn["reply"].rstrip(" "), turn["tokens"]["in"], turn["finish"]) for turn in turns]

    assert {name: comparable(turns) for name, turns in local.items()} == {
        name: comparable(turns) for name, turns in undisturbed.items()
    }
    assert len({turn["reply"] for turns in local.values() for turn in turns}) > 3


class KillAfter(NullObserver):
    """Kills a server after a number of turns."""

    def __init__(self, server, turns):
        self.server, self.remaining = server, turns

    def on_turn(self, state, turn):
        self.remaining -= 1
        if self.remaining == 0:
            self.server.kill()


@pytest.mark.slow
def test_run_stops_if_the_server_dies_and_resumes_with_a_new_one(server, undisturbed, tmp_path):
    quick = ("retries=3",)
    answer = forward_to(server.url)
    with StubServer(answer) as first:
        config = make_config(
            tmp_path, "rooms", **options(server, first.url, engine_option=quick, batch_size=2)
        )
        run = start_run(config)
        try:
            with pytest.raises(EngineError, match=f"{first.url}.*--continue"):
                run.go(KillAfter(first, 7))
        finally:
            run.close()
    completed = sum(len(turns) for turns in transcripts(run.path).values())
    assert 7 <= completed < COUNT * TURNS
    with StubServer(answer, port=first.port):
        resumed = resume_run(RunData(run.path), {})
        try:
            resumed.go(NullObserver())
        finally:
            resumed.close()
    assert transcripts(run.path) == undisturbed


@pytest.mark.slow
def test_questions_of_a_dead_server_move_to_the_other(server, undisturbed, tmp_path):
    with StubServer(forward_to(server.url)) as steady, StubServer(forward_to(server.url)) as dying:

        class CloseAfter(KillAfter):
            def on_turn(self, state, turn):
                self.remaining -= 1
                if self.remaining == 0:
                    dying.close()

        config = make_config(
            tmp_path,
            "rooms",
            **options(server, steady.url, dying.url, engine_option=("retries=2",)),
        )
        run = start_run(config)
        try:
            results = run.go(CloseAfter(None, 6))
        finally:
            run.close()
    assert len(dying.bodies) >= 3
    assert len(steady.bodies) + len(dying.bodies) >= results["totals"]["turns"] > COUNT
    assert results["counts"]["failed"] == 0
    assert transcripts(run.path) == undisturbed
