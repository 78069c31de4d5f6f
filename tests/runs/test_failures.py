"""Which failures stop the run, and which fail only one question."""

import json
import shutil

import pytest
from conftest import mostly_slow
from factories.runs import (
    finish_run,
    make_config,
    make_questions,
    play,
    resume,
    transcripts,
    walking_engine,
)
from factories.samples import agent_options, mixed_engine
from factories.states import question

from render_agent.agents.agent import Agent
from render_agent.agents.verifiers.geometry import GeometryVerifier
from render_agent.engines.engine import MAX_REPLY_BYTES, reply_bytes
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import EngineError, RunStoppedError
from render_agent.runs.log import writer
from render_agent.runs.phase_controller import MAX_CONSECUTIVE, Failures, allowed_failures
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

COUNT = 12


def run_until_stopped(folder, questions, engine, error=RunStoppedError, **options):
    """Start a run that has to stop; return its folder and the error message."""
    run = start_run(make_config(folder, questions, max_turns=5, **options))
    with pytest.raises(error) as stop:
        finish_run(run, lambda config, questions: engine)
    return run.path, str(stop.value)


class RaisingPolicy:
    """A policy that raises a different message for each question until it is fixed."""

    def reply(self, request):
        raise ValueError(f"question {request.dialogue_id}: no such file '/tmp/{request.seed}'")


def broken_step(self, tools, context, request):
    raise KeyError(request.dialogue_id)
    yield


def no_scores(*args, **kwargs):
    raise MemoryError


@pytest.mark.parametrize("part", mostly_slow(["policy", "agent", "verifier"], "policy"))
def test_error_in_every_question_stops_the_run(part, tmp_path, monkeypatch):
    questions, options = make_questions(tmp_path, COUNT), {}
    engine, intact_engine = walking_engine(COUNT, batch_size=3), walking_engine(COUNT)
    if part == "policy":
        engine = ScriptedEngine(RaisingPolicy(), batch_size=3)
    if part == "verifier":
        options = agent_options("lookahead:3") | {"verifier": ("geometry",)}
        engine, intact_engine = mixed_engine(batch_size=3), mixed_engine()
    with monkeypatch.context() as patched:
        if part == "agent":
            patched.setattr(Agent, "ask", broken_step)
        if part == "verifier":
            patched.setattr(GeometryVerifier, "score", no_scores)
        options = {"max_turns": 5} | options
        run = start_run(make_config(tmp_path, questions, **options))
        with pytest.raises(RunStoppedError, match="consecutive failures") as stop:
            finish_run(run, lambda config, questions: engine)
    expected = {"policy": "ValueError", "agent": "KeyError", "verifier": "memory"}
    assert expected[part] in str(stop.value)
    assert sum(line["error"] is not None for line in RunData(run.path).lines()) == MAX_CONSECUTIVE
    resume(run.path, intact_engine)
    reference, results = play(tmp_path, questions, intact_engine, **options)
    assert transcripts(run.path) == transcripts(reference)
    assert results["counts"]["failed"] == 0


class LossyPolicy(ReplayPolicy):
    """Replies that some questions never receive."""

    def reply(self, request):
        if int(request.dialogue_id) in self.lost:
            raise ValueError("none")
        return super().reply(request)


def engine_losing_calls(*calls):
    engine = walking_engine(COUNT, batch_size=1)
    engine.policy.__class__ = LossyPolicy
    engine.policy.lost = calls
    return engine


def test_isolated_failures_do_not_stop_the_run(tmp_path):
    questions = make_questions(tmp_path, COUNT)
    path, results = play(
        tmp_path, questions, engine_losing_calls(0, 2, 4, 6, 8, 9, 10), max_turns=5
    )
    assert results["counts"]["failed"] == 7
    assert sum(line["error"] is not None for line in RunData(path).lines()) == 7


@pytest.mark.parametrize(
    ("max_failures", "stops"), [("4", True), ("7", False), ("50%", True), ("100%", False)]
)
def test_max_failures(tmp_path, max_failures, stops):
    questions = make_questions(tmp_path, COUNT)
    if not stops:
        _, results = play(
            tmp_path,
            questions,
            engine_losing_calls(*range(1, 8)),
            max_turns=5,
            max_failures=max_failures,
        )
        assert results["counts"]["failed"] == 7
        return
    allowed = allowed_failures(max_failures, COUNT)
    path, message = run_until_stopped(
        tmp_path, questions, engine_losing_calls(*range(1, 8)), max_failures=max_failures
    )
    assert f"{allowed + 1} failures" in message
    assert "--max-failures" in message
    failed = {line["question_id"] for line in RunData(path).lines() if line["error"]}
    assert len(failed) == allowed + 1


def test_broken_scan_fails_only_its_questions(tmp_path):
    questions = make_questions(tmp_path, 2 * COUNT)
    shutil.copyfile(tmp_path / "room.ply", tmp_path / "whole.ply")
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    for row in rows[COUNT:]:
        row["scene_name"] = "whole"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "room.ply").write_bytes(b"ply\nthis is none")
    _, results = play(tmp_path, questions, walking_engine(2 * COUNT), max_turns=5)
    assert results["counts"]["failed"] == COUNT > MAX_CONSECUTIVE
    assert results["counts"]["answered"] == COUNT


def test_render_failures_in_all_scenes_stop_the_run():
    questions = [question(id=str(n), scene=f"room{n // 3}") for n in range(3 * COUNT)]
    failures = Failures("auto", questions)
    for each in questions[: 3 * MAX_CONSECUTIVE - 3]:
        failures.add(each, "no device", of_scene=True)
    with pytest.raises(RunStoppedError, match="no device"):
        failures.add(questions[3 * MAX_CONSECUTIVE - 3], "no device", of_scene=True)


@pytest.mark.parametrize("verb", ["answer", "submit", "retire"])
def test_engine_exception_stops_a_resumable_run(tmp_path, verb):
    questions, engine = make_questions(tmp_path, 4), walking_engine(4)
    call, times = getattr(engine, verb), []

    def fail_later(*args):
        times.append(1)
        if len(times) > 2:
            raise RuntimeError("slots do not fit")
        return call(*args)

    setattr(engine, verb, fail_later)
    path, message = run_until_stopped(tmp_path, questions, engine, EngineError)
    assert all(text in message for text in ("engine scripted", "slots do not fit"))
    resume(path, walking_engine(4))
    assert transcripts(path) == transcripts(
        play(tmp_path, questions, walking_engine(4), max_turns=5)[0]
    )


class EndlessEngine(ScriptedEngine):
    """Answers, then keeps writing."""

    size = 36_000_000

    def answer(self, requests):
        return [
            type(reply)((*(text + "é" * self.size for text in reply.samples),))
            for reply in super().answer(requests)
        ]


def test_overlong_reply_is_truncated(tmp_path):
    questions = make_questions(tmp_path, 2)
    path, results = play(
        tmp_path, questions, EndlessEngine(walking_engine(2).policy), max_turns=3, max_new_tokens=40
    )
    lines = RunData(path).lines()
    for line in lines:
        assert len(line["reply"].encode()) < reply_bytes(40) + 100
        assert line["reply"].endswith("bytes more than 40 tokens can be]")
        assert line["finish"] == "length"
    assert results["counts"]["failed"] == 0
    assert max(map(len, (path / "turns.jsonl").read_bytes().splitlines())) < 30_000
    assert reply_bytes(10**9) > MAX_REPLY_BYTES


def test_unreadably_long_lines_are_not_written(tmp_path, monkeypatch):
    questions = make_questions(tmp_path, 2)
    monkeypatch.setattr(writer, "MAX_LINE_BYTES", 12_000)
    engine = EndlessEngine(walking_engine(2).policy)
    engine.size = 5000
    path, results = play(tmp_path, questions, engine, max_turns=3)
    assert results["counts"]["failed"] == 2
    assert all("more than the maximum of 12,000" in line["error"] for line in RunData(path).lines())
    monkeypatch.undo()
    engine.size = 10
    resume(path, engine)
    assert RunData(path).saved_results["counts"]["failed"] == 0


def test_exception_in_a_step_fails_only_its_question(tmp_path, monkeypatch):
    ask = Agent.ask

    def fail_once(self, tools, context, request):
        if (request.dialogue_id, request.turn) == ("2", 1):
            raise MemoryError
        return ask(self, tools, context, request)

    monkeypatch.setattr(Agent, "ask", fail_once)
    questions = make_questions(tmp_path, 4)
    path, results = play(tmp_path, questions, walking_engine(4), max_turns=5)
    assert results["counts"]["failed"] == 1
    (error,) = [line["error"] for line in RunData(path).lines() if line["error"]]
    assert "out of memory" in error
    monkeypatch.undo()
    resume(path, walking_engine(4))
    assert transcripts(path) == transcripts(
        play(tmp_path, questions, walking_engine(4), max_turns=5)[0]
    )
