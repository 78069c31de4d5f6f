"""Faults while a move is chosen fail only their question, are logged, and are repaired by resuming."""

import json
import shutil

import pytest
from factories.runs import (
    STEP,
    comparable_results,
    evidence_by_turn,
    images,
    make_questions,
    play,
    resume,
    transcripts,
    truncate_log,
)
from factories.samples import (
    AGENTS,
    FreeRunning,
    MixedReplies,
    agent_options,
    mixed_engine,
    run_agent,
)

from render_agent.engines.engine import Reply
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import RenderError, RunLogError
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run
from render_agent.views.free_views import FreeViews

COUNT = 3

AGENT = "lookahead:3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def questions(folder):
    return make_questions(folder, COUNT)


@pytest.fixture(scope="module")
def whole(folder, questions):
    """A run without faults."""
    return run_agent(folder, questions, AGENT, mixed_engine())[0]


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copy")


def assert_same_turns(path, whole):
    assert transcripts(path) == transcripts(whole)
    assert evidence_by_turn(path) == evidence_by_turn(whole)
    assert images(path) == images(whole)


def failed_questions(results):
    return [row["question_id"] for row in results["questions"] if row["status"] == "failed"]


def find_weighed_turn(path):
    """Return (question id, turn) of a turn after the first in which moves were weighed."""
    return next(key for key, e in evidence_by_turn(path).items() if e["weighed"] and key[1] > 0)


class Faulty(ScriptedEngine):
    """Fails the request for one turn of one dialogue."""

    def __init__(self, dialogue, turn, batch_size):
        super().__init__(MixedReplies(), batch_size)
        self.failing = dialogue, turn

    def _answer_one(self, request, reply, batch_size):
        if (request.dialogue_id, request.turn) == self.failing:
            return Reply(error="the image is too large", events=("retried",))
        return super()._answer_one(request, reply, batch_size)


@pytest.mark.parametrize("batch_size", [1, 64])
def test_failed_reply_fails_its_question_only(folder, questions, whole, batch_size):
    question, turn = find_weighed_turn(whole)
    path, results = run_agent(folder, questions, AGENT, Faulty(question, turn, batch_size))
    assert failed_questions(results) == [question]
    (line,) = [line for line in RunData(path).lines() if line["error"]]
    assert (line["question_id"], line["turn"]) == (question, turn)
    assert line["events"] == ["retried"]
    expected = transcripts(whole)
    actual = transcripts(path)
    assert len(actual.pop(question)) == turn
    assert actual == {name: turns for name, turns in expected.items() if name != question}
    resume(path, mixed_engine())
    assert_same_turns(path, whole)


@pytest.mark.parametrize("engine_class", [ScriptedEngine, FreeRunning])
def test_each_dialogue_is_retired_once(folder, questions, engine_class):
    engine, submitted, retired = mixed_engine(3, engine_class), set(), []
    submit, engine.retire = engine.submit, retired.append

    def record(requests):
        submitted.update(request.dialogue_id for request in requests)
        submit(requests)

    engine.submit = record
    run_agent(folder, questions, AGENT, engine)
    assert sorted(retired) == sorted(submitted)


def test_missing_candidate_images_are_rendered_again(folder, questions, whole, copy):
    truncate_log(copy, len(RunData(copy).lines()) // 2)
    deleted = [file for file in images(copy) if "candidate" in file or "scenes" in file]
    assert len(deleted) > 5
    for file in deleted:
        (copy / file).unlink()
    resume(copy, mixed_engine())
    assert_same_turns(copy, whole)
    assert comparable_results(copy) == comparable_results(whole)


def test_failed_preview_fails_its_question_only(folder, questions, whole, monkeypatch):
    preview = FreeViews.preview

    def failing(self, state, look, candidates):
        draw, countdown = self.viewer.draw, [2]

        def fail(*args):
            countdown[0] -= 1
            if not countdown[0]:
                raise RenderError("renderer out of memory")
            return draw(*args)

        if (state.id, len(state.turns)) == (question, turn):
            monkeypatch.setattr(self.viewer, "draw", fail)
        try:
            return preview(self, state, look, candidates)
        finally:
            monkeypatch.setattr(self.viewer, "draw", draw)

    question, turn = find_weighed_turn(whole)
    monkeypatch.setattr(FreeViews, "preview", failing)
    path, results = run_agent(folder, questions, AGENT, mixed_engine(2))
    monkeypatch.undo()
    assert failed_questions(results) == [question]
    resume(path, mixed_engine())
    assert_same_turns(path, whole)


def test_failed_image_write_stops_the_run_without_data_loss(folder, questions, whole, monkeypatch):
    from render_agent.views.image_store import ImageStore

    write = ImageStore._write

    def full(self, file, image):
        if file.endswith("1_candidate-2.png"):
            raise RunLogError(f"cannot write {file}: No space left on device")
        write(self, file, image)

    monkeypatch.setattr(ImageStore, "_write", full)
    before = set((folder / "runs").iterdir())
    with pytest.raises(RunLogError, match="No space left on device"):
        run_agent(folder, questions, AGENT, mixed_engine())
    monkeypatch.undo()
    (path,) = set((folder / "runs").iterdir()) - before
    assert RunData(path).saved_results is None
    resume(path, mixed_engine())
    assert_same_turns(path, whole)
    assert comparable_results(path) == comparable_results(whole)


EDITS = {
    "different choice": lambda e: e.update(
        chosen=next(n for n in e["weighed"] if n != e["chosen"])
    ),
    "missing candidate": lambda e: e["candidates"].pop(0),
    "missing score": lambda e: e["judgements"][0]["scores"][0].pop(),
    "unknown candidate": lambda e: e["weighed"].append(99),
    "missing key": lambda e: e.pop("chosen"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edited_evidence_error_names_the_line(copy, edit):
    lines = [json.loads(line) for line in (copy / "turns.jsonl").read_text().splitlines()]
    number = next(n for n, line in enumerate(lines) if len(line["evidence"]["weighed"]) > 1)
    edit(lines[number]["evidence"])
    (copy / "turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(RunLogError, match=f"turns.jsonl.* line {number + 1} "):
        resume_run(RunData(copy), {})


class Repeated:
    """Returns K copies of one text per turn."""

    def __init__(self, texts):
        self.replies = ReplayPolicy({"*": texts})

    def reply(self, request):
        return self.replies.reply(request)


UNREADABLE = (
    "",
    "{}",
    '{"forward_meters": ',
    '{"moves": [{"forward_meters": 1}]}',
    '{"answer": {"is": "A"}}',
    "\x00\ud800",
)


@pytest.mark.parametrize("agent", AGENTS)
def test_unreadable_samples_behave_as_with_a_single_reply(folder, questions, agent):
    texts = [*UNREADABLE, STEP, json.dumps({"answer": "A", "done": True})]
    options = {**agent_options(agent), "max_turns": len(texts), "view_types": ("ego",)}
    path, _ = play(folder, questions, ScriptedEngine(Repeated(texts)), **options)
    options |= {"agent": "single", "verifier": ()}
    single, _ = play(folder, questions, ScriptedEngine(Repeated(texts)), **options)

    def summary(run):
        keys = ("reply", "action", "stood", "camera", "happened")
        return {
            name: [{key: turn[key] for key in keys} for turn in turns]
            for name, turns in transcripts(run).items()
        }

    assert summary(path) == summary(single)
    evidence, num_unreadable = evidence_by_turn(path), 0
    for name, turns in transcripts(path).items():
        for turn in turns:
            if "malformed" in turn["action"]:
                num_unreadable += 1
                assert not evidence[name, turn["turn"]]["weighed"]
    assert num_unreadable >= COUNT * 4


def test_ids_similar_to_side_dialogues_do_not_collide(folder, questions, tmp_path):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows += [rows[0] | {"id": f"0 turn 1 probe {number}"} for number in range(3)]
    all_questions = folder / "all.jsonl"
    all_questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    batch, _ = run_agent(folder, all_questions, AGENT, mixed_engine(2))
    for row in rows[:1] + rows[-3:]:
        one_question = folder / "one.jsonl"
        one_question.write_text(json.dumps(row) + "\n")
        single, _ = run_agent(folder, one_question, AGENT, mixed_engine())
        assert transcripts(single)[str(row["id"])] == transcripts(batch)[str(row["id"])]
        assert evidence_by_turn(single).items() <= evidence_by_turn(batch).items()
