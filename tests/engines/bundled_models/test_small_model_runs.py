"""Complete runs with the bundled Qwen3-VL, or with its replacement if it is not trained yet."""

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from conftest import test_data
from factories.models import TRAINED, bundled_model
from factories.replies import reply_schema
from factories.runs import (
    NullObserver,
    comparable_results,
    evidence_by_turn,
    make_config,
    transcripts,
)
from factories.scenes import room, write_ply

from render_agent.dialogue.state import Status
from render_agent.options import VIEW_TYPES, RunConfig
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent.score.tables import score_table
from render_agent.tasks.rooms import BUNDLED

REPLY_TOKENS = 100 if TRAINED else 12  # enough for a reply; with random weights, replies never end

MODEL_OPTIONS = {
    "engine": "transformers",
    "device": "cpu",
    "max_turns": 2,
    "max_new_tokens": REPLY_TOKENS,
    "no_guide": True,
    "image_size": (320, 240),
}
# A counting, a direction and a distance question about two of the bundled rooms.
QUESTIONS = {"benchmark": "rooms", "id": ("20", "27", "64")}
TWO_QUESTIONS = {"id": ("20", "64")}
SHORT = {"max_new_tokens": 12}  # replies that are only compared with each other can be cut off


def rooms(folder, **options):
    defaults = MODEL_OPTIONS | QUESTIONS | {"model": str(bundled_model())}
    return make_config(folder, "rooms", **defaults | options)


def play(config):
    run = start_run(config.absolute())
    try:
        return run.path, run.go(NullObserver())
    finally:
        run.close()


@pytest.fixture(scope="module")
def sequential(tmp_path_factory):
    """A run without batching and without reuse between turns."""
    folder = tmp_path_factory.mktemp("sequential")
    options = {"batch_size": 1, "max_batched_turns": 0, "engine_option": ("reuse=none",)}
    return play(rooms(folder, **TWO_QUESTIONS, **SHORT, **options))


def test_bundled_model_runs_on_a_cpu(sequential):
    path, results = sequential
    assert results["counts"]["failed"] == 0
    assert {row["turns"] for row in results["questions"]} <= ({1, 2} if TRAINED else {2})
    assert len({turn["reply"] for turns in transcripts(path).values() for turn in turns}) >= 2
    assert RunData(path).record["engine"]["dtype"] == "auto"


@pytest.mark.parametrize(
    "schedule",
    [
        {"batch_size": 2, "max_batched_turns": 2, "finish_together": 1},
        {"batch_size": 2, "max_batched_turns": 0, "engine_option": ("reuse=keys",)},
        {"batch_size": 2, "max_batched_turns": 1, "engine_option": ("reuse=none",)},
    ],
)
@pytest.mark.slow
def test_schedule_does_not_change_replies(tmp_path, sequential, schedule):
    assert_same_replies(play(rooms(tmp_path, **TWO_QUESTIONS, **SHORT, **schedule)), sequential)


def assert_same_replies(first, second):
    assert transcripts(first[0]) == transcripts(second[0])
    assert first[1]["questions"] == second[1]["questions"]


@pytest.fixture(scope="module")
def batched_run(tmp_path_factory):
    """A run with batches, then with concurrent dialogues, and reuse of the KV cache."""
    schedule = {"batch_size": 2, "max_batched_turns": 1, "finish_together": 2}
    return play(rooms(tmp_path_factory.mktemp("batched"), **TWO_QUESTIONS, **SHORT, **schedule))


def test_batching_and_reuse_do_not_change_replies(sequential, batched_run):
    assert_same_replies(batched_run, sequential)


def test_run_reports_its_reuse(sequential, batched_run):
    for (path, results), reuse, words in (
        (sequential, "none", "nothing reused between turns"),
        (batched_run, "keys", "KV cache reused between turns"),
    ):
        assert json.loads((path / "config.json").read_text())["engine"]["reuse"] == reuse
        assert json.loads((path / "results.json").read_text())["reuse"] == reuse
        assert words in score_table(results).caption


@pytest.mark.slow
def test_guided_replies_are_the_same_under_another_schedule(tmp_path):
    guided = {"no_guide": False, "max_new_tokens": max(REPLY_TOKENS, 40)}
    options = {"batch_size": 1, "max_batched_turns": 0, "engine_option": ("reuse=none",)}
    sequential, _ = play(rooms(tmp_path / "sequential", **guided, **options))
    batched, _ = play(rooms(tmp_path / "batched", **guided, batch_size=3, max_batched_turns=1))
    assert transcripts(batched) == transcripts(sequential)
    for turns in transcripts(sequential).values():
        for turn in turns:
            if turn["finish"] == "stop":
                jsonschema.validate(json.loads(turn["reply"]), reply_schema(VIEW_TYPES))


def is_valid(reply, kinds):
    """True if a reply is a JSON object that matches the schema."""
    try:
        jsonschema.validate(json.loads(reply), reply_schema(kinds))
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


@pytest.mark.skipif(not TRAINED, reason="random weights write no valid replies")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("views", "kinds", "at_least"), [("free", VIEW_TYPES, 1), ("start", (), 3)]
)
def test_constrained_decoding_does_not_change_valid_replies(tmp_path, views, kinds, at_least):
    free, _ = play(rooms(tmp_path / "free", views=views))
    guided, _ = play(rooms(tmp_path / "guided", views=views, no_guide=False))
    num_compared = 0
    for name, turns in transcripts(free).items():
        for turn, guided_turn in zip(turns, transcripts(guided)[name], strict=False):
            if not is_valid(turn["reply"], kinds):
                break  # the dialogues differ from here on
            assert guided_turn["reply"] == turn["reply"]
            num_compared += 1
    assert num_compared >= at_least


@pytest.mark.slow
def test_replies_to_black_images_do_not_depend_on_the_room(tmp_path):
    """With the same question and camera, replies about two rooms differ only because of the images."""
    replies = {}
    for images in ("real", "black"):
        for scene in ("room01", "room03"):
            config = RunConfig(
                ply=str(BUNDLED / f"{scene}.ply"),
                question="How many chair(s) are in this room?",
                start="2.5,1.5,1.5,90",
                image_stress=images,
                output=str(tmp_path / "runs"),
                model=str(bundled_model()),
                **MODEL_OPTIONS,
            )
            path, _ = play(config)
            (turns,) = transcripts(path).values()
            replies[images, scene] = turns[0]["messages"], turns[0]["reply"]
    texts = {json.dumps(texts_of(messages)) for messages, _ in replies.values()}
    assert len(texts) == 1
    assert replies["black", "room01"][1] == replies["black", "room03"][1]
    assert replies["real", "room01"][1] != replies["real", "room03"][1]


def texts_of(messages):
    """Return the texts of messages without their images."""
    return [
        piece["text"] for message in messages for piece in message["content"] if "text" in piece
    ]


@pytest.mark.slow
def test_batching_does_not_change_judge_scores(tmp_path):
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
        evidence.append(evidence_by_turn(path))
    single, batched = evidence
    assert single.keys() == batched.keys()
    num_scores = 0
    for turn, choice in single.items():
        pairs = zip(choice["judgements"], batched[turn]["judgements"], strict=True)
        for ours, theirs in pairs:
            scores = np.ravel(ours["scores"])
            assert scores == pytest.approx(np.ravel(theirs["scores"]), abs=1e-5)
            num_scores += scores.size
    assert num_scores >= 3


@pytest.mark.slow
def test_truncated_run_resumes_with_the_same_dialogue(tmp_path, sequential, batched_run):
    complete, _ = sequential
    path = Path(shutil.copytree(batched_run[0], tmp_path / batched_run[0].name))
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:2]))
    run = resume_run(RunData(path), {})
    assert any(state.status is Status.ACTIVE for state in run.states)
    run.go(NullObserver())
    run.close()
    assert transcripts(path) == transcripts(complete)
    assert comparable_results(path) == comparable_results(complete)


@pytest.mark.slow
@pytest.mark.parametrize("scan", ["made", "pcl_room_scan_nocolour.ply"])
def test_single_question_about_a_scan(tmp_path, scan):
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
