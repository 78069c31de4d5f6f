import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import test_data

from render_agent.errors import QuestionsError, SetupError
from render_agent.questions.vsibench import LAYOUTS, find_scan, load_vsibench, with_scans
from render_agent.score import NUMBER_TYPES

COUNTS = {
    "object_counting": 565,
    "object_abs_distance": 834,
    "object_size_estimation": 953,
    "room_size_estimation": 288,
    "object_rel_distance": 710,
    "object_rel_direction_easy": 217,
    "object_rel_direction_medium": 378,
    "object_rel_direction_hard": 373,
    "route_planning": 194,
    "obj_appearance_order": 618,
}


@pytest.fixture(scope="module")
def questions():
    return load_vsibench(str(test_data("vsibench", "test.jsonl")))


def test_the_benchmark_is_whole(questions):
    assert Counter(question.type for question in questions) == COUNTS
    assert len({question.id for question in questions}) == 5130
    scenes = {(question.dataset, question.scene) for question in questions}
    assert Counter(dataset for dataset, _ in scenes) == {
        "scannet": 88,
        "scannetpp": 50,
        "arkitscenes": 150,
    }


def test_every_row_is_kept_word_for_word_and_in_order(questions):
    rows = [
        json.loads(line)
        for line in test_data("vsibench", "test.jsonl").read_text("utf-8").splitlines()
    ]
    for question, row in zip(questions, rows, strict=True):
        assert question.id == str(row["id"])
        assert question.scene == row["scene_name"]
        assert question.text == row["question"]
        assert question.options == tuple(row["options"] or ())
        assert question.truth == row["ground_truth"]
        assert question.wanted == ("number" if question.type in NUMBER_TYPES else "letter")
        assert question.scan is None


def test_ids_and_scenes_of_digits_stay_texts(questions):
    assert all(
        isinstance(question.id, str) and isinstance(question.scene, str) for question in questions
    )
    digits = {question.scene for question in questions if question.dataset == "scannetpp"}
    assert {"3864514494", "5942004064"} <= digits


LAID_OUT = [(dataset, layout) for dataset, layouts in LAYOUTS.items() for layout in layouts]


@pytest.mark.parametrize(("dataset", "layout"), LAID_OUT)
def test_a_scan_is_found_in_every_layout_of_its_data_set(tmp_path, dataset, layout):
    scan = tmp_path / layout.format(id="scene7")
    scan.parent.mkdir(parents=True)
    scan.touch()
    assert find_scan(dataset, "scene7", {dataset: str(tmp_path)}) == scan
    assert find_scan(dataset, "scene8", {dataset: str(tmp_path)}) is None
    assert find_scan(dataset, "scene7", {}) is None
    assert find_scan("another", "scene7", {"another": str(tmp_path)}) is None


def test_the_layouts_are_those_of_the_data_sets():
    assert "scans/{id}/{id}_vh_clean_2.ply" in LAYOUTS["scannet"]
    assert "data/{id}/scans/mesh_aligned_0.05.ply" in LAYOUTS["scannetpp"]
    for split in ("Training", "Validation"):
        for root in ("", "3dod/", "raw/"):
            assert f"{root}{split}/{{id}}/{{id}}_3dod_mesh.ply" in LAYOUTS["arkitscenes"]


def test_questions_get_the_scans_that_are_there(questions, tmp_path):
    first = next(question for question in questions if question.dataset == "scannet")
    scan = tmp_path / f"scans/{first.scene}/{first.scene}_vh_clean_2.ply"
    scan.parent.mkdir(parents=True)
    scan.touch()
    found = with_scans(questions, {"scannet": str(tmp_path)})
    assert [question.id for question in found] == [question.id for question in questions]
    for question in found:
        assert question.scan == (scan if question.scene == first.scene else None)


def test_no_scan_at_all_says_which_options_to_give(questions, tmp_path):
    with pytest.raises(SetupError) as caught:
        with_scans(questions, {})
    for part in (
        "288 scans",
        "--arkitscenes DIR, --scannet DIR, --scannetpp DIR",
        "--benchmark rooms",
    ):
        assert part in str(caught.value)
    with pytest.raises(SetupError, match="none of the 288 scans"):
        with_scans(questions, {"scannet": str(tmp_path)})
    assert with_scans([], {}) == []


def test_a_folder_that_is_not_there_is_named(questions, tmp_path):
    with pytest.raises(SetupError, match=r"--scannet .*missing is no folder"):
        with_scans(questions, {"scannet": str(tmp_path / "missing")})


def test_the_questions_are_found_where_they_may_lie(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        SetupError, match=r"VSI-Bench's questions are not at hand: .* --benchmark rooms"
    ) as caught:
        load_vsibench(None)
    assert "\n" not in str(caught.value)
    row = {"id": 1, "dataset": "scannet", "scene_name": "s", "question_type": "object_counting", "question": "?",
           "options": None, "ground_truth": "2"}  # fmt: skip
    place = Path("VSI-Bench/test.jsonl")
    place.parent.mkdir()
    place.write_text(json.dumps(row))
    assert [question.id for question in load_vsibench(None)] == ["1"]


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(SetupError, match="there is no file of questions at"):
        load_vsibench(str(tmp_path / name))


def test_a_file_of_something_else(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": 1}')
    with pytest.raises(QuestionsError, match=r"x\.jsonl"):
        load_vsibench(str(tmp_path / "x.jsonl"))
