"""What goes wrong while a move is chosen fails its question alone, stays in the log, and is mended by going on."""

import json
import shutil
from dataclasses import replace

import pytest
from factories.runs import (
    STEP,
    choices,
    cut,
    go_on,
    make_questions,
    outcome,
    pictures,
    play,
    transcripts,
)
from factories.samples import AGENTS, FreeRunning, MixedReplies, choose, mixed_engine, options_of

from render_agent.engines.engine import Reply
from render_agent.engines.scripted import Replies, ScriptedEngine
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
    """A run that nothing disturbed."""
    return choose(folder, questions, AGENT, mixed_engine())[0]


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copy")


def continued(path):
    return go_on(path, mixed_engine())


def assert_same(path, whole):
    assert transcripts(path) == transcripts(whole)
    assert choices(path) == choices(whole)
    assert outcome(path) == outcome(whole)
    assert pictures(path) == pictures(whole)


def failed(results):
    return [row["question_id"] for row in results["questions"] if row["status"] == "failed"]


def weighed(path):
    """Return a question and a turn whose moves were weighed, and which is not the question's first."""
    return next(
        place for place, found in choices(path).items() if found["weighed"] and place[1] > 0
    )


class Faulty(ScriptedEngine):
    """Cannot answer the request of one turn in one dialogue."""

    def __init__(self, dialogue, turn, batch_size):
        super().__init__(MixedReplies(), batch_size)
        self.wrong = dialogue, turn

    def _answer_one(self, request, batch_size):
        if (request.question_id, request.turn) == self.wrong:
            return Reply(error="the picture is too large", events=("retried",))
        return replace(super()._answer_one(request, batch_size), events=("mended",))


@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_reply_that_fails_fails_its_question_alone(folder, questions, whole, batch_size):
    place = weighed(whole)
    engine = Faulty(*place, batch_size)
    path, results = choose(folder, questions, AGENT, engine)
    assert failed(results) == [place[0]]
    (line,) = [line for line in RunData(path).lines() if line["error"]]
    assert (line["question_id"], line["turn"]) == place
    assert line["events"] == ["retried"]
    others = {name: said for name, said in transcripts(whole).items() if name != place[0]}
    kept = transcripts(path)
    assert {name: said for name, said in kept.items() if name != place[0]} == others
    assert len(kept[place[0]]) == place[1]
    continued(path)
    assert transcripts(path) == transcripts(whole)
    assert choices(path) == choices(whole)
    assert pictures(path) == pictures(whole)


@pytest.mark.parametrize("made", [ScriptedEngine, FreeRunning])
def test_every_dialogue_is_retired_once(folder, questions, made):
    engine, asked, retired = mixed_engine(3, made), set(), []
    submit, engine.retire = engine.submit, retired.append

    def note(requests):
        asked.update(request.question_id for request in requests)
        submit(requests)

    engine.submit = note
    choose(folder, questions, AGENT, engine)
    assert sorted(retired) == sorted(asked)


def test_lost_candidate_pictures_are_drawn_again(folder, questions, whole, copy):
    cut(copy, len(RunData(copy).lines()) // 2)
    lost = [file for file in pictures(copy) if "candidate" in file or "scenes" in file]
    assert len(lost) > 5
    for file in lost:
        (copy / file).unlink()
    continued(copy)
    assert_same(copy, whole)


def test_a_candidate_that_cannot_be_drawn_fails_its_question_alone(
    folder, questions, whole, monkeypatch
):
    preview = FreeViews.preview

    def failing(self, state, look, candidates):
        draw, left = self.viewer.draw, [2]

        def fail(*given):
            left[0] -= 1
            if not left[0]:
                raise RenderError("the renderer has no memory for the picture")
            return draw(*given)

        if state.id == place[0] and len(state.turns) == place[1]:
            monkeypatch.setattr(self.viewer, "draw", fail)
        try:
            return preview(self, state, look, candidates)
        finally:
            monkeypatch.setattr(self.viewer, "draw", draw)

    place = weighed(whole)
    monkeypatch.setattr(FreeViews, "preview", failing)
    path, results = choose(folder, questions, AGENT, mixed_engine(2))
    monkeypatch.undo()
    assert failed(results) == [place[0]]
    continued(path)
    assert transcripts(path) == transcripts(whole)
    assert choices(path) == choices(whole)
    assert pictures(path) == pictures(whole)


def test_a_picture_that_cannot_be_written_stops_the_run_and_loses_nothing(
    folder, questions, whole, monkeypatch
):
    from render_agent.views.picture_store import Pictures

    write = Pictures._write

    def full(self, file, picture):
        if file.endswith("1_candidate-2.png"):
            raise RunLogError(f"cannot write {file}: No space left on device")
        write(self, file, picture)

    monkeypatch.setattr(Pictures, "_write", full)
    before = set((folder / "runs").iterdir())
    with pytest.raises(RunLogError, match="No space left on device"):
        choose(folder, questions, AGENT, mixed_engine())
    monkeypatch.undo()
    (path,) = set((folder / "runs").iterdir()) - before
    assert RunData(path).saved_results is None
    continued(path)
    assert_same(path, whole)


EDITS = {
    "another is chosen": lambda e: e.update(
        chosen=next(n for n in e["weighed"] if n != e["chosen"])
    ),
    "a candidate is gone": lambda e: e["candidates"].pop(0),
    "a score is gone": lambda e: e["judgements"][0]["scores"][0].pop(),
    "one that is not there was weighed": lambda e: e["weighed"].append(99),
    "a part is missing": lambda e: e.pop("chosen"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edited_evidence_is_refused_with_its_line(copy, edit):
    lines = [json.loads(line) for line in (copy / "turns.jsonl").read_text().splitlines()]
    number = next(n for n, line in enumerate(lines) if len(line["evidence"]["weighed"]) > 1)
    edit(lines[number]["evidence"])
    (copy / "turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(RunLogError, match=f"turns.jsonl.* line {number + 1} "):
        resume_run(RunData(copy), {})


class Alike:
    """Gives the same sample K times: one of a list, a turn each."""

    def __init__(self, texts):
        self.replies = Replies({"*": texts})

    def reply(self, request):
        return self.replies.reply(request)


ODD = (
    "",
    "{}",
    '{"forward_meters": ',
    '{"moves": [{"forward_meters": 1}]}',
    '{"answer": {"is": "A"}}',
    "\x00\ud800",
)


@pytest.mark.parametrize("agent", AGENTS)
def test_where_no_sample_can_be_read_it_goes_as_it_would_alone(folder, questions, agent):
    texts = [*ODD, STEP, json.dumps({"answer": "A", "done": True})]
    quick = {**options_of(agent), "max_turns": len(texts), "kinds": ("ego",)}
    path, _ = play(folder, questions, ScriptedEngine(Alike(texts)), **quick)
    single = {**quick, "agent": "single", "verifier": ()}
    alone, _ = play(folder, questions, ScriptedEngine(Alike(texts)), **single)

    def told(run):
        kept = ("reply", "action", "stood", "camera", "happened")
        return {
            name: [{part: turn[part] for part in kept} for turn in turns]
            for name, turns in transcripts(run).items()
        }

    assert told(path) == told(alone)
    found, unread = choices(path), 0
    for name, turns in transcripts(path).items():
        for turn in turns:
            if "malformed" in turn["action"]:
                unread += 1
                assert not found[name, turn["turn"]]["weighed"]
    assert unread >= COUNT * 4


def test_ids_that_look_like_those_of_branches_stay_apart(folder, questions, tmp_path):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows += [rows[0] | {"id": f"0 turn 1 probe {number}"} for number in range(3)]
    many = folder / "many.jsonl"
    many.write_text("".join(json.dumps(row) + "\n" for row in rows))
    together, _ = choose(folder, many, AGENT, mixed_engine(2))
    for row in rows[:1] + rows[-3:]:
        one = folder / "one.jsonl"
        one.write_text(json.dumps(row) + "\n")
        alone, _ = choose(folder, one, AGENT, mixed_engine())
        assert transcripts(alone)[str(row["id"])] == transcripts(together)[str(row["id"])]
        assert choices(alone).items() <= choices(together).items()
