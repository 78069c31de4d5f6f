"""SQA3D, ScanQA, OpenEQA and ReVSI in the format of their authors' files, and metrics named in rows."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from factories.runs import SMALL, finish_run
from factories.scenes import room, write_ply
from PIL import Image

from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import QuestionsError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.runs.log.lines import question_from_json, question_to_json
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.score.means import MACRO, AnswerScore, tally_scores
from render_agent.score.metrics import ExactMatch, RefinedMatch, clean
from render_agent.score.questions import is_scorable, score_answer
from render_agent.tasks.row_files import load_questions
from render_agent.tasks.rows import question_from_row
from render_agent_lab.other_benchmarks.scan_benchmarks import (
    read_openeqa,
    read_revsi,
    read_scanqa,
    read_sqa3d,
)

SCENE = "scene0380_00"
TURN, SHIFT = (
    30.0,
    np.array([1.0, -2.0, 0.3]),
)  # alignment: degrees and metres, file -> aligned frame
STANDS, RED_BOX = np.array([2.5, 2.0, 0.0]), np.array([4.3, 0.65, 0.4])  # metres, aligned frame


def rotation_z(degrees):
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    return np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1.0]])


@pytest.fixture(scope="module")
def scannet(tmp_path_factory):
    """A ScanNet scan with its alignment file, and SQA3D's files about it."""
    root = tmp_path_factory.mktemp("scannet")
    folder = root / "scans" / SCENE
    folder.mkdir(parents=True)
    points, colours, faces = room()
    raw = (points - SHIFT) @ rotation_z(TURN)
    write_ply(folder / f"{SCENE}_vh_clean_2.ply", raw, colours, faces)
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation_z(TURN), SHIFT
    numbers = " ".join(f"{value:.6f}" for value in matrix.ravel())
    (folder / f"{SCENE}.txt").write_text(f"axisAlignment = {numbers}\n")
    middle = (raw.min(axis=0) + raw.max(axis=0)) / 2
    x, y, _ = (float(v) for v in (STANDS - SHIFT) @ rotation_z(TURN) - middle)
    yaw = math.degrees(math.atan2(*(RED_BOX - STANDS)[1::-1])) - TURN
    half = math.radians(yaw - 180) / 2  # without rotation, SQA3D's arrow points along -x
    rotation = {"_x": 0, "_y": 0, "_z": math.sin(half), "_w": math.cos(half)}
    entry = {"scene_id": SCENE, "question_id": 220602000002}
    question = {
        **entry,
        "situation": "I am facing a red box.",
        "alternative_situation": ["I look at a red box."],
        "question": "What color is the box in front of me?",
    }
    annotation = {
        **entry,
        "question_type": "N/A",
        "answer_type": "other",
        "answers": [{"answer": "red", "answer_confidence": "yes", "answer_id": 1}],
        "rotation": rotation,
        "position": {"x": x, "y": y, "z": 0},
    }
    file = root / "v1_balanced_questions_test_scannetv2.json"
    file.write_text(json.dumps({"info": {}, "questions": [question]}))
    (root / "v1_balanced_sqa_annotations_test_scannetv2.json").write_text(
        json.dumps({"info": {}, "annotations": [annotation]})
    )
    return root, file


def test_sqa3d_starts_at_its_situation_and_uses_exact_match(scannet, tmp_path):
    root, file = scannet
    answers = [json.dumps({"answer": "The Red.", "done": True})]
    engine = ScriptedEngine(ReplayPolicy({"220602000002": answers}))
    options = {"questions": str(file), "scannet": (str(root),)}
    config = RunConfig(batch=True, benchmark="sqa3d", output=str(tmp_path), **SMALL, **options)
    run = start_run(config)
    results = finish_run(run, lambda config, questions: engine)
    path = run.path
    (line,) = RunData(path).lines()
    x, y, z = line["stood"]["position"]
    assert (x, y) == pytest.approx(STANDS[:2], abs=1e-3)
    assert z == pytest.approx(1.6, abs=0.02)
    assert "I am facing a red box. What color is the box" in json.dumps(line["messages"])
    view = next(view for view in line["views"] if view["kind"] == "ego")
    red, green, blue = np.array(Image.open(path / view["file"])).astype(int).transpose(2, 0, 1)
    columns = np.nonzero((red > 150) & (green < 80) & (blue < 80))[1]
    assert columns.mean() == pytest.approx(48, abs=4)  # centred in 96 columns
    (row,) = results["questions"]
    assert (row["type"], row["score"]) == ("sqa3d_what", 1)
    assert results["metrics"]["exact-match"] == {"score": 100, "interval": None, "n": 1}
    with pytest.raises(SetupError, match="annotations"):
        read_sqa3d(Path(shutil.copy(file, tmp_path)))


@pytest.mark.parametrize(
    ("answer", "truths", "exact", "refined"),
    [
        ("Brown.", ["brown"], 1, 1),
        ("the  2 chairs", ["two chairs"], 1, 1),
        ("brown wooden table", ["table"], 0, 1),
        ("arm chair", ["armchair"], 0, 1),
        ("rigth", ["right"], 1, 1),
        ("none", ["0"], 1, 1),
        ("backwards", ["backward"], 1, 1),
        ("left", ["right", "left"], 1, 1),
        ("left", ["right"], 0, 0),
        ("", ["right"], 0, 0),
        ("23", ["twenty-three"], 1, 1),
        ("o' clock", ["oclock"], 1, 1),
        ("mat2", ["mat"], 1, 1),
    ],
)
def test_exact_and_refined_match(answer, truths, exact, refined):
    assert (ExactMatch().score(answer, truths), RefinedMatch().score(answer, truths)) == (
        exact,
        refined,
    )


def test_clean_is_idempotent():
    for text in ("The 3 Books!", "a  tv, none", "It's 10:30"):
        assert clean(clean(text)) == clean(text)


def test_scanqa_openeqa_and_revsi_files(tmp_path):
    scanqa = [{"question_id": "val-scene0011-0", "scene_id": "scene0011_00", "question": "What is it?",
               "answers": ["brown cabinet", "cabinet"], "object_ids": [8], "object_names": ["cabinet"]},
              {"question_id": "test-1", "scene_id": "scene0011_00", "question": "Where?"}]  # fmt: skip
    (tmp_path / "scanqa.json").write_text(json.dumps(scanqa))
    first, hidden = read_scanqa(tmp_path / "scanqa.json")
    assert (first.ground_truth, first.answers, first.metric) == (
        "brown cabinet",
        ("cabinet",),
        "exact-match",
    )
    assert score_answer(first, "Cabinet") == 1
    assert not is_scorable(hidden)
    openeqa = [{"question": "What is red?", "answer": "the door", "category": "object recognition",
                "question_id": "f2e8", "episode_history": "scannet-v0/002-scannet-scene0709_00",
                "extra_answers": ["a door"]},
               {"question": "?", "answer": "x", "category": "c", "question_id": "f2e9",
                "episode_history": "hm3d-v0/000-hm3d-BFRyYbPCCPE"}]  # fmt: skip
    (tmp_path / "eqa.json").write_text(json.dumps(openeqa))
    (question,) = read_openeqa(tmp_path / "eqa.json")
    assert (question.scene, question.type, is_scorable(question)) == (
        "scene0709_00",
        "openeqa_object_recognition",
        False,
    )
    with pytest.raises(ValueError, match="can be scored"):
        score_answer(question, "door")
    revsi = [{"id": 1, "scene_id": "scene0011_00", "question_type": "object_counting_single", "num_frames": 16,
              "question": "How many?", "options": [], "ground_truth": "4"},
             {"id": 2, "scene_id": "41069025", "question_type": "object_rel_distance_farthest", "num_frames": 16,
              "question": "Which?", "options": ["A. sofa", "B. bed"], "ground_truth": "B"}]  # fmt: skip
    (tmp_path / "revsi.json").write_text(json.dumps(revsi))
    count, farthest = read_revsi(tmp_path / "revsi.json")
    assert (count.dataset, count.answer_form, score_answer(count, "3")) == (
        "scannet",
        "number",
        0.6,
    )
    assert (farthest.dataset, farthest.answer_form, score_answer(farthest, "b")) == (
        "arkitscenes",
        "letter",
        1,
    )
    assert question_from_json(question_to_json(first)) == first


def test_revsi_task_scores_are_means_over_types():
    kinds = {"object_counting_single": 1.0, "object_counting_multiple": 0.0, "route_planning": 1.0}
    means = tally_scores(
        [AnswerScore(kind, "d", "s", score) for kind, score in kinds.items()]
    ).means
    assert (means["object_counting"], means[MACRO]) == (0.5, 0.75)


ROW = {
    "id": 1,
    "dataset": "d",
    "scene_name": "s",
    "question_type": "own",
    "question": "?",
    "ground_truth": "x",
}


def test_row_with_metric_and_start_pose(tmp_path):
    texts = ROW | {
        "metric": "refined-match",
        "ground_truth": ["red", "crimson"],
        "start": [1, 2, 1.5, 90],
    }
    (tmp_path / "own.jsonl").write_text(json.dumps(texts))
    (question,) = load_questions(tmp_path / "own.jsonl", "own")
    assert score_answer(question, "it is crimson") == 1
    assert (question.start.position, question.start.yaw) == ((1, 2, 1.5), 90)
    number = question_from_row(
        ROW | {"metric": "mean-relative-accuracy", "ground_truth": 4}, "own", None
    )
    assert (number.answer_form, score_answer(number, "3")) == ("number", 0.6)
    choice = ROW | {"metric": "accuracy", "ground_truth": "B", "options": ["A. x", "B. y"]}
    assert score_answer(question_from_row(choice, "own", None), "B.") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "bleu"}, "metric 'bleu'"),
        ({}, "'metric'"),
        ({"metric": "accuracy"}, "options"),
        ({"metric": "exact-match", "options": ["A. x", "B. y"]}, "text.*options"),
        ({"metric": "mean-relative-accuracy"}, "number"),
        ({"metric": "accuracy", "ground_truth": ["A"]}, "list"),
        ({"metric": "exact-match", "start": [1, 2, "z", 3]}, "x, y, z, yaw"),
    ],
)
def test_row_that_does_not_match_its_metric_is_rejected(change, message):
    with pytest.raises(QuestionsError, match=message):
        question_from_row(ROW | change, "own", None)


def test_missing_benchmark_files_are_named(tmp_path):
    for name in ("sqa3d", "scanqa", "openeqa", "revsi"):
        with pytest.raises(SetupError, match=f"--benchmark {name} .*--questions"):
            build(RunConfig(batch=True, benchmark=name)).questions()
    with pytest.raises(UsageError, match=r"--subset .*--benchmark vsibench"):
        build(
            RunConfig(batch=True, benchmark="scanqa", questions="x", subset="debiased")
        ).questions()
    bad = tmp_path / "bad.json"
    for text, message in (
        ("{", "cannot read"),
        ("[]", "list"),
        ('[{"question_id": 1}]', "'scene_id'"),
    ):
        bad.write_text(text)
        with pytest.raises(QuestionsError, match=message):
            read_scanqa(bad)
