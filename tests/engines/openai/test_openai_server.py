"""Runs over a real OpenAI-compatible server with a small model, undisturbed and with faults in between."""

from dataclasses import replace
from importlib.util import find_spec

import pytest
from factories.models import bundled_model
from factories.runs import Silent, make_config, play, transcripts
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

ASKED = {"id": ("20", "23", "26", "29", "31", "33")}
"""Of every type but three one question about a bundled room."""

COUNT, TURNS = len(ASKED["id"]), 2

TOKENS = 40
"""Of a reply: enough. The server reports `length` for a reply that ends with its last token, too."""
QUICK = ("retries=8", "timeout=120")


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    """The SDK retries at once."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.02)


@pytest.fixture(scope="module")
def server():
    with model_server(bundled_model()) as server:
        yield server


def options(server, *urls, **more):
    """The options of a small run over these addresses."""
    given = {
        "engine": "openai",
        "model": server.model,
        "base_url": urls or (server.url,),
        "engine_option": QUICK,
        "max_turns": TURNS,
        "max_new_tokens": TOKENS,
        **ASKED,
    }
    return given | more


def run_over(folder, server, *urls, **more):
    """Run the questions over these addresses to the end; return the run folder and the results."""
    folder.mkdir(exist_ok=True)
    run = start_run(make_config(folder, "rooms", **options(server, *urls, **more)))
    try:
        return run.path, run.go(Silent())
    finally:
        run.close()


@pytest.fixture(scope="module")
def undisturbed(server, tmp_path_factory):
    """The transcripts of a run that nothing disturbs."""
    path, results = run_over(tmp_path_factory.mktemp("undisturbed"), server)
    assert results["counts"]["failed"] == 0
    return transcripts(path)


class Unguided(TransformersEngine):
    """Holds replies to no schema, as the server of the tests does not."""

    def submit(self, requests):
        super().submit([replace(request, schema=None) for request in requests])


@pytest.mark.slow
def test_a_run_over_a_server_says_what_the_same_model_says_in_this_process(
    server, undisturbed, tmp_path
):
    engine = Unguided(open_model(server.model, dtype="float32", device="cpu"), batch_size=1)
    same = {"max_turns": TURNS, "max_new_tokens": TOKENS, **ASKED}
    path, _ = play(tmp_path, "rooms", engine, **same)
    here = transcripts(path)

    def said(turns):  # of a reply that was cut off the server leaves out a space at its end
        return [(turn["reply"].rstrip(" "), turn["tokens"]["in"], turn["finish"]) for turn in turns]

    assert {name: said(turns) for name, turns in here.items()} == {
        name: said(turns) for name, turns in undisturbed.items()
    }
    assert len({turn["reply"] for turns in here.values() for turn in turns}) > 3


class KillAfter(Silent):
    """Kills a server after so many turns."""

    def __init__(self, server, turns):
        self.server, self.left = server, turns

    def took(self, state, turn):
        self.left -= 1
        if self.left == 0:
            self.server.kill()


@pytest.mark.slow
def test_a_server_that_dies_stops_the_run_and_it_goes_on_with_another(
    server, undisturbed, tmp_path
):
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
    before = sum(len(turns) for turns in transcripts(run.path).values())
    assert 7 <= before < COUNT * TURNS
    with StubServer(answer, port=first.port):
        again = resume_run(RunData(run.path), {})
        try:
            again.go(Silent())
        finally:
            again.close()
    assert transcripts(run.path) == undisturbed


@pytest.mark.slow
def test_the_questions_of_a_server_that_dies_go_to_the_other(server, undisturbed, tmp_path):
    with StubServer(forward_to(server.url)) as steady, StubServer(forward_to(server.url)) as dying:

        class Dies(KillAfter):
            def took(self, state, turn):
                self.left -= 1
                if self.left == 0:
                    dying.close()

        config = make_config(
            tmp_path,
            "rooms",
            **options(server, steady.url, dying.url, engine_option=("retries=2",)),
        )
        run = start_run(config)
        try:
            results = run.go(Dies(None, 6))
        finally:
            run.close()
    assert len(dying.bodies) >= 3
    assert len(steady.bodies) + len(dying.bodies) >= results["totals"]["turns"] > COUNT
    assert results["counts"]["failed"] == 0
    assert transcripts(run.path) == undisturbed
