"""`--batch-jobs` against stub servers that validate jobs with the SDKs' types."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from io import StringIO

import pytest
from factories.batch_apis import BROKEN, CANCELED, EXPIRED, NO_TEMPERATURE, BatchServer
from factories.runs import NullObserver, make_config, make_questions, transcripts
from rich.console import Console

from render_agent.dialogue.events import BATCH_JOB, OMITTED
from render_agent.errors import EngineError, UsageError
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent.util.display import display_on

NAMES = ["anthropic", "chat", "gemini", "responses"]
JOB_APIS = ["anthropic", "chat", "gemini"]  # the jobs of `responses` are those of `chat`
QUESTIONS, TURNS, BATCHED = 3, 3, 2
JOBS = "render_agent.engines.remote.batch_jobs"


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    """Poll and retry immediately."""
    monkeypatch.setattr("render_agent.engines.remote.remote_engine.INITIAL_DELAY_SECONDS", 0.01)
    monkeypatch.setattr("render_agent.engines.remote.chat_api.JOB_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(f"{JOBS}.FIRST_POLL_SECONDS", 0.01)
    monkeypatch.setattr(f"{JOBS}.MAX_POLL_SECONDS", 0.02)


def options(server, name, protocol="json", **more):
    native = {"engine_option": ("api=responses",)} if name == "responses" else {}
    return {
        "engine": "openai" if name in ("chat", "responses") else name,
        "model": "made",
        "base_url": (server.base_url,),
        "reply_protocol": protocol,
        "limit": QUESTIONS,
        "max_turns": TURNS,
        "max_batched_turns": BATCHED,
        "no_restate": True,
        **native,
        **more,
    }


def go(run):
    """Complete a run; return it with its results."""
    try:
        return run, run.go(NullObserver())
    finally:
        run.close()


def play(folder, server, name, protocol="json", **more):
    run_options = options(server, name, protocol, **{"batch_jobs": True} | more)
    return go(start_run(make_config(folder, questions_in(folder), **run_options)))


def questions_in(folder):
    folder.mkdir(exist_ok=True)
    return make_questions(folder, QUESTIONS)


def turns_of(run):
    return [turn for state in RunData(run.path).states for turn in state.turns]


def job_lines(run):
    return list(map(json.loads, (run.path / "batch_jobs.jsonl").read_text().splitlines()))


def keys_of(run):
    return {key for line in job_lines(run) for key in line["requests"]}


def in_job(turn):
    return BATCH_JOB in turn.events


@pytest.mark.parametrize("protocol", ["json", "tools"])
@pytest.mark.parametrize("name", NAMES)
def test_transcripts_equal_those_of_direct_requests(name, protocol, tmp_path):
    with BatchServer(name) as server:
        run, results = play(tmp_path / "a", server, name, protocol)
        submissions, jobs = server.submissions, len(server.jobs)
        direct, _ = play(tmp_path / "b", server, name, protocol, batch_jobs=False)
    assert not server.problems
    assert transcripts(run.path) == transcripts(direct.path)
    assert (submissions, jobs) == ([QUESTIONS] * BATCHED, BATCHED)
    assert len(server.jobs) == BATCHED
    turns = turns_of(run)
    assert [in_job(turn) for turn in turns] == [turn.number < BATCHED for turn in turns]
    assert not any(map(in_job, turns_of(direct)))
    assert [t.blocks for t in turns] == [t.blocks for t in turns_of(direct)]
    assert results["totals"]["events"][BATCH_JOB] == QUESTIONS * BATCHED
    assert {turn.batch_size for turn in turns if in_job(turn)} == {QUESTIONS}


SCRIPT = """
import sys
from factories.runs import make_config, NullObserver
from pathlib import Path
import render_agent.engines.remote.batch_jobs as jobs
from render_agent.runs.runner import start_run
jobs.FIRST_POLL_SECONDS = jobs.MAX_POLL_SECONDS = 0.05
options = eval(sys.argv[2])
folder = Path(sys.argv[1])
start_run(make_config(folder, folder / "questions.jsonl", **options)).go(NullObserver())
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A function that returns the transcripts of a run without faults, and its paid requests, by the name of an API."""

    @cache
    def play_once(name):
        with BatchServer(name) as server:
            run, _ = play(tmp_path_factory.mktemp("whole"), server, name)
        return transcripts(run.path), sorted(server.paid)

    return play_once


def test_killed_run_reads_the_results_of_its_job(tmp_path, whole):
    """The process is killed by SIGKILL while its second job is in flight."""
    expected, paid = whole("chat")
    with BatchServer("chat") as server:
        server.polls = 20  # about one second
        questions_in(tmp_path)
        arguments = [str(tmp_path), repr(options(server, "chat", batch_jobs=True))]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], env=environment)
        end = time.monotonic() + 120
        while len(server.submissions) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        polled = server.polled
        while server.polled < polled + 3 and time.monotonic() < end:  # the id is on disk
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (folder,) = (tmp_path / "runs").iterdir()
        assert {turn.number for s in RunData(folder).states for turn in s.turns} == {0}
        server.polls = 2
        run, _ = go(resume_run(RunData(folder), {}))
    assert not server.problems
    assert server.submissions == [QUESTIONS] * BATCHED
    assert sorted(server.paid) == paid
    assert transcripts(run.path) == expected


@pytest.mark.parametrize("name", JOB_APIS)
def test_expired_requests_are_sent_again_in_a_new_job(name, tmp_path, whole):
    with BatchServer(name) as server:
        server.faults = [None, EXPIRED]
        run, results = play(tmp_path, server, name)
    assert not server.problems
    assert server.submissions == [QUESTIONS, 1, QUESTIONS]
    assert transcripts(run.path) == whole(name)[0]
    assert results["totals"]["events"]["retried"] == 1


@pytest.mark.parametrize("name", JOB_APIS)
def test_broken_and_canceled_requests_fail_and_are_sent_again_by_resuming(name, tmp_path, whole):
    with BatchServer(name) as server:
        server.faults = [None, BROKEN, CANCELED]
        run, results = play(tmp_path, server, name)
        assert server.submissions == [QUESTIONS, QUESTIONS - 2]
        assert results["counts"]["failed"] == 2
        resumed, results = go(resume_run(RunData(run.path), {}))
    assert not server.problems
    assert server.submissions == [QUESTIONS, QUESTIONS - 2, 2, 2]
    assert results["counts"]["failed"] == 0
    assert transcripts(resumed.path) == whole(name)[0]


def test_field_that_a_job_rejects_is_omitted(tmp_path):
    with BatchServer("chat") as server:
        server.faults = [NO_TEMPERATURE] * QUESTIONS
        run, _ = play(tmp_path, server, "chat")
    assert not server.problems
    assert server.submissions == [QUESTIONS] * (BATCHED + 1)
    assert len(server.paid) == QUESTIONS * TURNS
    assert not any("temperature" in json.loads(request) for request in server.paid)
    assert all(OMITTED + "temperature" in turn.events for turn in turns_of(run))


@pytest.mark.parametrize(
    ("more", "jobs"),
    [({"agent": "vote:2", "temperature": 1.0}, 2), ({"probe": ("counts",)}, 2)],
    ids=["samples", "probes"],
)
def test_each_sample_and_probe_has_its_job(more, jobs, tmp_path):
    """The API returns one sample per request."""
    with BatchServer("anthropic") as server:
        run, _ = play(tmp_path / "a", server, "anthropic", **more)
        submissions, server.submissions = server.submissions, []
        direct, _ = play(tmp_path / "b", server, "anthropic", batch_jobs=False, **more)
    assert not server.problems
    assert submissions == [QUESTIONS] * BATCHED * jobs
    assert len(keys_of(run)) == QUESTIONS * BATCHED * jobs
    assert transcripts(run.path) == transcripts(direct.path)


@pytest.mark.parametrize("name", ["chat", "gemini"])
def test_jobs_that_fail_as_a_whole_are_submitted_again(name, tmp_path):
    with BatchServer(name) as server:
        server.failures = ["Enqueued token limit reached", None]
        _run, results = play(tmp_path, server, name)
    assert server.submissions == [QUESTIONS] * (BATCHED + 1)
    assert results["counts"]["failed"] == 0
    assert len(server.paid) == QUESTIONS * TURNS


def test_large_batches_are_split(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{JOBS}.MAX_BYTES", 1)
    with BatchServer("anthropic") as server:
        run, _ = play(tmp_path, server, "anthropic")
    assert server.submissions == [1] * QUESTIONS * BATCHED
    assert [line["job"] for line in job_lines(run)] == list(server.jobs)
    assert all(line["url"] == server.base_url for line in job_lines(run))
    assert len(keys_of(run)) == QUESTIONS * BATCHED


def test_damaged_lines_of_results_are_ignored(tmp_path):
    damaged = 'no JSON\n[]\n{}\n{"custom_id": "a", "result": 5}\n'
    with BatchServer("anthropic") as server:
        store = server.store
        server.store = lambda text: store(damaged + text)
        _, results = play(tmp_path, server, "anthropic")
    assert results["counts"]["failed"] == 0
    assert server.submissions == [QUESTIONS] * BATCHED


@pytest.mark.parametrize("name", JOB_APIS)
def test_waiting_job_shows_its_status_and_how_to_stop(name, tmp_path):
    output = StringIO()
    with BatchServer(name) as server, display_on(Console(file=output, width=300)):
        play(tmp_path, server, name)
        jobs = [*server.jobs]
    lines = [line for line in output.getvalue().splitlines() if "batch job " in line]
    for job in jobs:
        (line, *_) = [line for line in lines if job in line]
        assert all(words in line for words in (" ago", "Ctrl-C", "--continue"))
        assert any(status in line for status in ("in_progress", "running"))


def test_servers_without_a_batch_api_get_direct_requests(tmp_path):
    with BatchServer("chat") as server:
        server.has_jobs = False
        _run, results = play(tmp_path, server, "chat")
    assert results["counts"]["failed"] == 0
    assert BATCH_JOB not in results["totals"]["events"]
    assert len(server.paid) == QUESTIONS * TURNS


def test_unreadable_job_stops_the_run_and_is_read_by_resuming(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{JOBS}.MAX_POLL_FAILURES", 2)
    with BatchServer("anthropic") as server:
        jobs_api, broken = server.jobs_api, type(server.jobs_api)()
        broken.job_of = lambda path: "none"
        server.jobs_api = broken
        with pytest.raises(EngineError, match="msgbatch_0"):
            play(tmp_path, server, "anthropic")
        server.jobs_api = jobs_api
        folder = next((tmp_path / "runs").iterdir())
        go(resume_run(RunData(folder), {}))
    assert server.submissions == [QUESTIONS] * BATCHED
    assert len(server.paid) == QUESTIONS * TURNS


@pytest.mark.parametrize("name", JOB_APIS)
def test_unrelated_responses_to_polls_stop_the_run(name, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{JOBS}.MAX_POLL_FAILURES", 2)
    with BatchServer(name) as server:
        shown, responses = server.jobs_api.shown, []

        def show_first(job, _):
            responses.append(job)
            return shown(job, server) if len(responses) == 1 else {"object": "page"}

        server.jobs_api.shown = show_first
        with pytest.raises(EngineError):
            play(tmp_path, server, name)
    assert len(responses) == 1 + 3


@pytest.mark.parametrize("name", JOB_APIS)
def test_unrelated_responses_to_submissions_stop_the_run(name, tmp_path):
    with BatchServer(name) as server:
        server.jobs_api.shown = lambda job, _: {"object": "page"}
        with pytest.raises(EngineError, match=server.base_url):
            play(tmp_path, server, name)
    (folder,) = (tmp_path / "runs").iterdir()
    assert not (folder / "batch_jobs.jsonl").read_text()
    assert not any(state.turns for state in RunData(folder).states)


def test_lost_job_of_an_earlier_process_is_submitted_again(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{JOBS}.MAX_POLL_FAILURES", 2)
    with BatchServer("anthropic") as server:
        server.jobs_api.job_of = lambda path: "none"
        with pytest.raises(EngineError):
            play(tmp_path, server, "anthropic")
        del server.jobs_api.job_of
        server.jobs["deleted"] = server.jobs.pop("msgbatch_0")
        folder = next((tmp_path / "runs").iterdir())
        go(resume_run(RunData(folder), {}))
    assert server.submissions == [QUESTIONS] * (BATCHED + 1)


def test_batched_turns_cost_half(tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("- {models: [made], in: 1000, out: 1000}\n")
    with BatchServer("anthropic") as server:
        _, batched = play(tmp_path / "a", server, "anthropic", prices=str(prices))
        direct_options = {"batch_jobs": False, "prices": str(prices)}
        _, direct = play(tmp_path / "b", server, "anthropic", **direct_options)
    share = 1 - 0.5 * BATCHED / TURNS
    assert batched["cost_usd"] == pytest.approx(direct["cost_usd"] * share)


@pytest.mark.parametrize(
    "options", [{"engine": "scripted"}, {"engine": "openai", "workers": 2}], ids=str
)
def test_batch_jobs_need_an_api_and_one_process(options, tmp_path):
    with pytest.raises(UsageError, match="--batch-jobs"):
        build(make_config(tmp_path, "rooms", batch_jobs=True, **options))
