"""A real (small) Qwen3-VL explores real scans through the whole program."""

import pytest
from conftest import test_data
from made_runs import Silent, make_config, make_questions, outcome, transcripts
from made_scenes import room, write_ply
from small_models import small_model

from render_agent.config import RunConfig
from render_agent.run_log.folder import RunFolder
from render_agent.runner import go_on, start
from render_agent.state import Status

MODEL_OPTIONS = {
    "engine": "transformers",
    "dtype": "float32",
    "device": "cpu",
    "max_turns": 3,
    "max_new_tokens": 12,
    "no_guide": True,
    "image_size": (96, 64),
}


@pytest.fixture(scope="module")
def model():
    return str(small_model())


def play(config):
    run = start(config.absolute())
    try:
        return run.path, run.go(Silent())
    finally:
        run.close()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"no_guide": False, "max_new_tokens": 40},
    ],
)
def test_every_schedule_and_batch_gives_the_same_transcripts(tmp_path, model, more):
    questions = make_questions(tmp_path, 4)
    options = MODEL_OPTIONS | {"model": model} | more
    reference, results = play(
        make_config(tmp_path, questions, **options, batch_size=1, max_batched_turns=0)
    )
    assert results["counts"]["failed"] == 0
    assert {row["turns"] for row in results["questions"]} == {3}
    assert len({turn["reply"] for turns in transcripts(reference).values() for turn in turns}) > 1
    for batch_size, batched, together in ((4, 3, 1), (3, 1, 2)):
        schedule = {
            "batch_size": batch_size,
            "max_batched_turns": batched,
            "finish_together": together,
        }
        path, other = play(make_config(tmp_path, questions, **options, **schedule))
        assert transcripts(path) == transcripts(reference)
        assert other["questions"] == results["questions"]
    identity = RunFolder(reference).record["engine"]
    assert identity["model"] == model


def test_a_run_cut_off_goes_on_with_the_same_dialogue(tmp_path, model):
    questions = make_questions(tmp_path, 3)
    whole, _ = play(make_config(tmp_path, questions, **MODEL_OPTIONS, model=model))
    path, _ = play(make_config(tmp_path, questions, **MODEL_OPTIONS, model=model))
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:4]))
    run = go_on(RunFolder(path), {})
    assert [state.status for state in run.states].count(Status.ACTIVE) == 3
    run.go(Silent())
    run.close()
    assert transcripts(path) == transcripts(whole)
    assert outcome(path) == outcome(whole)


@pytest.mark.parametrize(
    "scan",
    ["made", "aws_small_house.ply", "icl_redwood_livingroom1.ply", "pcl_room_scan_nocolour.ply"],
)
def test_one_question_of_a_scan(tmp_path, model, scan):
    ply = write_ply(tmp_path / "room.ply", *room()) if scan == "made" else test_data("scenes", scan)
    config = RunConfig(
        ply=str(ply),
        question="How many chairs are in this house?",
        output=str(tmp_path / "runs"),
        **MODEL_OPTIONS | {"model": model, "max_turns": 2},
    )
    path, results = play(config)
    assert path.name.endswith("_single")
    assert results["counts"]["failed"] == 0
    (turns,) = transcripts(path).values()
    assert [view["kind"] for view in turns[0]["views"]] == ["top", "ego"]
    assert turns[0]["tokens"]["in"] > turns[0]["tokens"]["out"] > 0
