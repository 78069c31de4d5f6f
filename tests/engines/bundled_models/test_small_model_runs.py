"""The bundled Qwen3-VL explores rooms and scans through the whole program; a stand-in while there is none."""

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from conftest import test_data
from factories.models import TRAINED, bundled_model
from factories.replies import reply_schema
from factories.runs import Silent, choices, make_config, outcome, transcripts
from factories.scenes import room, write_ply

from render_agent.dialogue.reply import KINDS
from render_agent.dialogue.state import Status
from render_agent.options import RunConfig
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent.score.tables import score_table
from render_agent.tasks.rooms import BUNDLED

SENTENCE = 100 if TRAINED else 12
"""Tokens that a reply needs; those of random weights never end."""

MODEL_OPTIONS = {
    "engine": "transformers",
    "device": "cpu",
    "max_turns": 2,
    "max_new_tokens": SENTENCE,
    "no_guide": True,
    "image_size": (320, 240),
}
ASKED = {"benchmark": "rooms", "id": ("20", "27", "64")}
"""A count, a direction and a distance, in two of the bundled rooms."""

TWO = {"id": ("20", "64")}
"""The first and the last of them."""

SHORT = {"max_new_tokens": 12}
"""Replies that are compared word for word need not end."""


def rooms(folder, **more):
    return make_config(
        folder, "rooms", **MODEL_OPTIONS | ASKED | {"model": str(bundled_model())} | more
    )


def play(config):
    run = start_run(config.absolute())
    try:
        return run.path, run.go(Silent())
    finally:
        run.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run of one question after the other, nothing kept over the turns."""
    folder = tmp_path_factory.mktemp("alone")
    anew = {"batch_size": 1, "max_batched_turns": 0, "engine_option": ("reuse=none",)}
    return play(rooms(folder, **TWO, **SHORT, **anew))


def test_it_runs_in_single_precision_on_a_processor(alone):
    path, results = alone
    assert results["counts"]["failed"] == 0
    assert {row["turns"] for row in results["questions"]} <= ({1, 2} if TRAINED else {2})
    assert len({turn["reply"] for turns in transcripts(path).values() for turn in turns}) >= 2
    assert RunData(path).record["engine"]["dtype"] == "auto"


@pytest.mark.parametrize(
    "schedule",
    [
        {"batch_size": 2, "max_batched_turns": 2, "finish_together": 1},
        {"batch_size": 2, "max_batched_turns": 0, "engine_option": ("reuse=vision",)},
        {"batch_size": 2, "max_batched_turns": 1, "engine_option": ("reuse=none",)},
    ],
)
@pytest.mark.slow
def test_batch_is_single_and_kept_is_recomputed_under_every_schedule(tmp_path, alone, schedule):
    equal_but_for_the_schedule(play(rooms(tmp_path, **TWO, **SHORT, **schedule)), alone)


def equal_but_for_the_schedule(one, other):
    assert transcripts(one[0]) == transcripts(other[0])
    assert one[1]["questions"] == other[1]["questions"]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """A run of batches of two, then of two dialogues side by side, what was read kept over the turns."""
    schedule = {"batch_size": 2, "max_batched_turns": 1, "finish_together": 2}
    return play(rooms(tmp_path_factory.mktemp("together"), **TWO, **SHORT, **schedule))


def test_batch_is_single_and_kept_is_recomputed(alone, together):
    equal_but_for_the_schedule(together, alone)


def test_a_run_says_what_it_kept_over_the_turns(alone, together):
    for (path, results), reuse, words in (
        (alone, "none", "kept over the turns: nothing"),
        (together, "keys", "kept over the turns: keys and values"),
    ):
        assert json.loads((path / "config.json").read_text())["engine"]["reuse"] == reuse
        assert json.loads((path / "results.json").read_text())["reuse"] == reuse
        assert words in score_table(results).caption


@pytest.mark.slow
def test_guided_replies_are_the_same_under_another_schedule(tmp_path):
    guided = {"no_guide": False, "max_new_tokens": max(SENTENCE, 40)}
    anew = {"batch_size": 1, "max_batched_turns": 0, "engine_option": ("reuse=none",)}
    one, _ = play(rooms(tmp_path / "one", **guided, **anew))
    many, _ = play(rooms(tmp_path / "many", **guided, batch_size=3, max_batched_turns=1))
    assert transcripts(many) == transcripts(one)
    for turns in transcripts(one).values():
        for turn in turns:
            if turn["finish"] == "stop":
                jsonschema.validate(json.loads(turn["reply"]), reply_schema(KINDS))


def in_form(reply, kinds):
    """Whether a reply is one JSON object that its schema takes."""
    try:
        jsonschema.validate(json.loads(reply), reply_schema(kinds))
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


@pytest.mark.skipif(
    not TRAINED, reason="the bundled model, which has learned the form, is not there"
)
@pytest.mark.slow
@pytest.mark.parametrize(("views", "kinds", "least"), [("free", KINDS, 1), ("start", (), 3)])
def test_a_guide_changes_no_reply_that_is_in_form(tmp_path, views, kinds, least):
    free, _ = play(rooms(tmp_path / "free", views=views))
    held, _ = play(rooms(tmp_path / "held", views=views, no_guide=False))
    same = 0
    for name, turns in transcripts(free).items():
        for turn, guided in zip(turns, transcripts(held)[name], strict=False):
            if not in_form(turn["reply"], kinds):
                break  # from here on they are two dialogues
            assert guided["reply"] == turn["reply"]
            same += 1
    assert same >= least


@pytest.mark.slow
def test_black_pictures_say_nothing_of_the_room(tmp_path):
    """Asked the same from the same place, the replies of two rooms differ by what is shown alone."""
    said = {}
    for pictures in ("real", "black"):
        for scene in ("room01", "room03"):
            config = RunConfig(
                ply=str(BUNDLED / f"{scene}.ply"),
                question="How many chair(s) are in this room?",
                start="2.5,1.5,1.5,90",
                pictures=pictures,
                output=str(tmp_path / "runs"),
                model=str(bundled_model()),
                **MODEL_OPTIONS,
            )
            path, _ = play(config)
            (turns,) = transcripts(path).values()
            said[pictures, scene] = turns[0]["messages"], turns[0]["reply"]
    texts = {json.dumps(words(messages)) for messages, _ in said.values()}
    assert len(texts) == 1
    assert said["black", "room01"][1] == said["black", "room03"][1]
    assert said["real", "room01"][1] != said["real", "room03"][1]


def words(messages):
    """Return what messages say, without their pictures."""
    return [
        piece["text"] for message in messages for piece in message["content"] if "text" in piece
    ]


@pytest.mark.slow
def test_a_judge_says_the_same_in_batches(tmp_path):
    judge = f"judge:{bundled_model()}"
    options = {
        "engine": "scripted",
        "model": "wanderer",
        "agent": "lookahead:3",
        "verifier": (judge,),
        "temperature": 1.0,
        "id": ("27",),
    }
    evidence = []
    for batch_size in (1, 8):
        path, _ = play(rooms(tmp_path / str(batch_size), **options, batch_size=batch_size))
        evidence.append(choices(path))
    one, many = evidence
    assert one.keys() == many.keys()
    judged = 0
    for place, found in one.items():
        for mine, other in zip(found["judgements"], many[place]["judgements"], strict=True):
            assert np.ravel(mine["scores"]) == pytest.approx(np.ravel(other["scores"]), abs=1e-5)
            judged += np.size(mine["scores"])
    assert judged >= 3


@pytest.mark.slow
def test_a_run_cut_off_goes_on_with_the_same_dialogue(tmp_path, alone, together):
    whole, _ = alone
    path = Path(shutil.copytree(together[0], tmp_path / together[0].name))
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:2]))
    run = resume_run(RunData(path), {})
    assert any(state.status is Status.ACTIVE for state in run.states)
    run.go(Silent())
    run.close()
    assert transcripts(path) == transcripts(whole)
    assert outcome(path) == outcome(whole)


@pytest.mark.slow
@pytest.mark.parametrize("scan", ["made", "pcl_room_scan_nocolour.ply"])
def test_one_question_of_a_scan(tmp_path, scan):
    ply = write_ply(tmp_path / "room.ply", *room()) if scan == "made" else test_data("scenes", scan)
    config = RunConfig(
        ply=str(ply),
        question="How many chairs are in this house?",
        output=str(tmp_path / "runs"),
        model=str(bundled_model()),
        **MODEL_OPTIONS | SHORT,
    )
    path, results = play(config)
    assert path.name.endswith("_single")
    assert results["counts"]["failed"] == 0
    (turns,) = transcripts(path).values()
    assert [view["kind"] for view in turns[0]["views"]] == ["top", "ego"]
    assert turns[0]["tokens"]["in"] > turns[0]["tokens"]["out"] > 0
