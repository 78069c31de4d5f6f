"""Probes do not affect dialogues, are stored with their turns, and survive interruptions."""

import json

import jsonschema
import pytest
from factories.dialogues import load
from factories.models import small_model
from factories.runs import (
    finish_run,
    make_config,
    make_questions,
    play,
    resume,
    transcripts,
    walking_engine,
)

from render_agent.dialogue.chat import image_files as images_of
from render_agent.dialogue.reply import Malformed
from render_agent.engines.engine import Capabilities, Reply
from render_agent.engines.scripted import ScriptedEngine
from render_agent.engines.transformers.factory import build_engine
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import EngineError
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.model import Cause
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

ALL = {"probe": ("map", "counts"), "max_turns": 4}


def probes(path):
    """Return all probes of a run, without times and batches."""
    fields = ("asked", "reply", "belief", "error", "origin")
    return {
        (line["question_id"], line["turn"]): {n: v for n, v in line["probe"].items() if n in fields}
        for line in RunData(path).lines()
        if line.get("probe")
    }


@pytest.fixture
def questions(tmp_path):
    return make_questions(tmp_path, 5)


@pytest.mark.parametrize("batched", [0, 4])
def test_probes_do_not_change_the_dialogue(tmp_path, questions, batched):
    options = {"max_turns": 4, "max_batched_turns": batched}
    plain, results = play(tmp_path, questions, walking_engine(5), **options)
    probed, probed_results = play(
        tmp_path, questions, walking_engine(5, batch_size=3), **options | ALL
    )
    assert transcripts(plain) == transcripts(probed)
    assert results["questions"] == probed_results["questions"]
    assert results["totals"]["tokens"] == probed_results["totals"]["tokens"]
    assert "probes" not in results["totals"]
    assert probed_results["totals"]["probes"]["tokens"]["in"] > 0
    assert (
        len(probes(probed))
        == probed_results["totals"]["turns"]
        == probed_results["totals"]["probes"]["asked"]
    )
    assert not probes(plain)


class RecordingEngine(ScriptedEngine):
    """Records its requests."""

    def answer(self, requests):
        self.asked = [*getattr(self, "asked", []), *requests]
        return super().answer(requests)


def test_probe_branches_off_after_its_turn(tmp_path, questions):
    engine = RecordingEngine(walking_engine(5).policy)
    path, _ = play(tmp_path, questions, engine, **ALL)
    turns = {(r.dialogue_id, r.turn): r for r in engine.asked if r.probe is None}
    lines = {(line["question_id"], line["turn"]): line for line in RunData(path).lines()}
    requests = [request for request in engine.asked if request.probe is not None]
    assert {(r.question_id, r.turn) for r in requests} == set(turns)
    for request in requests:
        turn, line = (
            turns[request.question_id, request.turn],
            lines[request.question_id, request.turn],
        )
        assert request.messages[: len(turn.messages)] == turn.messages
        reply, question = request.messages[len(turn.messages) :]
        assert reply["content"][0]["text"] == line["reply"]
        assert question["content"][0]["text"].startswith(line["happened"])
        assert question["content"][0]["text"] == line["probe"]["asked"]
        assert not images_of([question])
        belief = json.loads(line["probe"]["reply"])
        assert belief["position"] == pytest.approx(line["camera"]["position"][:2], abs=0.01)
        for key, value in belief.items():
            jsonschema.validate(value, request.schema["properties"][key])
    assert not any("do you now believe" in json.dumps(r.messages) for r in turns.values())


def test_interrupted_run_resumes_with_the_same_probes(tmp_path, questions):
    path, results = play(tmp_path, questions, walking_engine(5), **ALL)
    dialogues, believed = transcripts(path), probes(path)
    log = path / "turns.jsonl"
    complete_log = log.read_bytes()
    for share in (0.31, 0.77):
        (path / "results.json").unlink()
        log.write_bytes(complete_log[: int(share * len(complete_log))])
        resumed = resume(path, walking_engine(5, batch_size=2), allow_code=True)
        assert transcripts(path) == dialogues
        assert probes(path) == believed
        assert resumed["beliefs"] == results["beliefs"]


class FaultyEngine(ScriptedEngine):
    """Answers dialogues, and probes alternately with faults and nonsense."""

    def answer(self, requests):
        odd = [Reply(error="too long"), Reply(("no map",)), Reply(('{"cat',), finish="length")]
        replies = super().answer(requests)
        return [odd[r.turn % 3] if r.probe else s for r, s in zip(requests, replies, strict=True)]


def test_failed_probe_does_not_affect_its_turn(tmp_path, questions):
    black = {"image_stress": "black"}
    plain, _ = play(tmp_path, questions, walking_engine(5), max_turns=4, **black)
    path, results = play(
        tmp_path, questions, FaultyEngine(walking_engine(5).policy), **ALL, **black
    )
    assert transcripts(path) == transcripts(plain)
    assert results["counts"]["failed"] == 0
    result = [line.probe for line in RunData(path).turns]
    assert {probe.error for probe in result} == {None, "too long"}
    assert all(probe.parsed_belief is None for probe in result)
    assert any(isinstance(probe.belief, Malformed) for probe in result)
    totals = results["totals"]["probes"]
    assert totals["failed"] == sum(probe.error is not None for probe in result) > 0
    assert totals["unreadable"] + totals["failed"] == totals["asked"] == len(result)
    causes = {result.cause for result in diagnose_run(RunData(path), 1).values()}
    assert not causes & {Cause.PERCEPTION, Cause.MEMORY, Cause.REASONING}


def test_human_engine_is_not_probed(tmp_path, questions):
    engine = walking_engine(5)
    engine.capabilities = Capabilities(sequential=True, side_dialogues=False)
    path, _ = play(tmp_path, questions, engine, **ALL)
    assert not probes(path)


class DyingEngine(ScriptedEngine):
    """Fails at the first probe of a second turn."""

    def answer(self, requests):
        if any(request.probe and request.turn for request in requests):
            raise EngineError("gone")
        return super().answer(requests)


def test_turn_is_repeated_if_the_engine_fails_during_its_probe(tmp_path, questions):
    run = start_run(make_config(tmp_path, questions, **ALL))
    with pytest.raises(EngineError, match="gone"):
        finish_run(run, lambda config, questions: DyingEngine(walking_engine(5).policy))
    assert {line["turn"] for line in RunData(run.path).lines()} == {0}


MODEL = {"image_size": (64, 64), "max_new_tokens": 10, "no_guide": True, "max_turns": 2}  # fmt: skip


@pytest.fixture(scope="module")
def engine():
    """The tiny Qwen3-VL in the engine with a KV cache; runs leave it open."""
    engine = build_engine(load(small_model()), 8, {}, 0, image_size=(64, 64))
    assert isinstance(engine, ContinuousEngine)
    close, engine.close = engine.close, lambda: None
    yield engine
    close()


@pytest.mark.parametrize("count", [2, pytest.param(11, marks=pytest.mark.slow)])
def test_probes_do_not_change_replies_of_a_model(tmp_path, engine, monkeypatch, count):
    """11 dialogues exceed the number that the cache searches for a common prefix."""
    monkeypatch.setattr("render_agent.parts.beliefs.ask_beliefs.MAX_TOKENS", 10)
    questions = make_questions(tmp_path, count)
    plain, _ = play(tmp_path, questions, engine, **MODEL)
    batched, _ = play(tmp_path, questions, engine, **MODEL, probe=("map",))
    single = {"max_batched_turns": 0, "finish_together": 1, "id": ("0", "1")}
    alone, _ = play(tmp_path, questions, engine, **MODEL, **single, probe=("map",))
    dialogues = transcripts(plain)
    assert transcripts(batched) == dialogues
    assert transcripts(alone) == {name: dialogues[name] for name in ("0", "1")}
    result = {name: line["reply"] for name, line in probes(batched).items()}
    assert {name: result[name] for name in probes(alone)} == {
        n: p["reply"] for n, p in probes(alone).items()
    }
    tokens = [line.probe.tokens for line in RunData(batched).turns]
    assert min(usage.cached / usage.prompt for usage in tokens) > 0.6, (
        "it reads its dialogue from the cache"
    )
