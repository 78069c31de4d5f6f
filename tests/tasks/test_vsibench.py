import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import test_data

from render_agent.errors import QuestionsError, SetupError
from render_agent.tasks.question_types import NUMBER_TYPES
from render_agent.tasks.vsibench import load_vsibench, vsibench_files

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


def test_benchmark_is_complete(questions):
    assert Counter(question.type for question in questions) == COUNTS
    assert len({question.id for question in questions}) == 5130
    scenes = {(question.dataset, question.scene) for question in questions}
    assert Counter(dataset for dataset, _ in scenes) == {
        "scannet": 88,
        "scannetpp": 50,
        "arkitscenes": 150,
    }


def test_rows_are_kept_verbatim_and_in_order(questions):
    rows = [
        json.loads(line)
        for line in test_data("vsibench", "test.jsonl").read_text("utf-8").splitlines()
    ]
    for question, row in zip(questions, rows, strict=True):
        assert question.id == str(row["id"])
        assert question.scene == row["scene_name"]
        assert question.text == row["question"]
        assert question.options == tuple(row["options"] or ())
        assert question.ground_truth == row["ground_truth"]
        assert question.answer_form == ("number" if question.type in NUMBER_TYPES else "letter")
        assert question.pruned is row["pruned"]
        assert question.scan is None


ROW = {"id": 1, "dataset": "scannet", "scene_name": "s", "question_type": "object_counting", "question": "?",
       "options": None, "ground_truth": "2"}  # fmt: skip


def test_question_file_is_found_in_the_usual_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SetupError, match="--benchmark rooms"):
        load_vsibench(None)
    path = Path("VSI-Bench/test.jsonl")
    path.parent.mkdir()
    path.write_text(json.dumps(ROW))
    assert [question.id for question in load_vsibench(None)] == ["1"]
    assert [question.id for question in load_vsibench("VSI-Bench")] == ["1"]


def test_local_folder_takes_precedence_over_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("nyu-visionx/VSI-Bench/test.json")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([ROW]))
    assert [question.id for question in load_vsibench("nyu-visionx/VSI-Bench")] == ["1"]


@pytest.mark.parametrize("name", ["missing.jsonl", ".", "folder/missing.tsv"])
def test_missing_question_file_is_rejected(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for path in (name, str(tmp_path / name)):
        with pytest.raises(SetupError, match="--questions"):
            load_vsibench(path)


def write(tmp_path, pruned):
    """Write six questions with these values in the column `pruned`; None for no such column."""
    rows = [ROW | {"id": number} for number in range(6)]
    if pruned is not None:
        rows = [row | {"pruned": value} for row, value in zip(rows, pruned, strict=True)]
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ids(path, *options, **keywords):
    return [question.id for question in load_vsibench(str(path), *options, **keywords)]


def test_official_subsets():
    path = str(test_data("vsibench", "test.jsonl"))
    removed = test_data("vsibench", "debiased_removed_ids.txt").read_text().split()
    debiased = load_vsibench(path, "debiased")
    assert len(debiased) == 2362
    assert not {question.id for question in debiased} & set(removed)
    tiny = load_vsibench(path, "tiny")
    listed = test_data("vsibench", "tiny_ids.txt").read_text().split()
    assert (len(listed), len(tiny)) == (400, 392)
    assert {question.id for question in tiny} <= set(listed)
    complete = load_vsibench(path)
    for subset in (debiased, tiny):
        subset_ids = {question.id for question in subset}
        assert subset == [question for question in complete if question.id in subset_ids]


def test_debiased_uses_the_column_or_the_list_of_removed_ids(tmp_path):
    path = write(tmp_path, [True, False] * 3)
    assert ids(path, "debiased") == ["1", "3", "5"]
    path = write(tmp_path, None)
    with pytest.raises(SetupError, match=r"'pruned'.*debiased_removed_ids"):
        ids(path, "debiased")
    assert ids(path) == list("012345")
    (tmp_path / "debiased_removed_ids.txt").write_text("5\n77\n")
    assert ids(path, "debiased") == list("01234")
    assert [question.pruned for question in load_vsibench(str(path))] == [False] * 5 + [True]


def test_tiny_requires_its_list_of_ids(tmp_path):
    path = write(tmp_path, None)
    with pytest.raises(SetupError, match=r"tiny_ids\.txt"):
        ids(path, "tiny")
    listed = tmp_path / "tiny_ids.txt"
    listed.write_text("4\n2\n99\n")
    assert ids(path, "tiny") == ["2", "4"]
    for content, message in (("", r"tiny_ids\.txt"), ("88", "tiny")):
        listed.write_text(content)
        with pytest.raises(QuestionsError, match=message):
            ids(path, "tiny")


def test_vsibench_files(tmp_path):
    path = write(tmp_path, None)
    assert vsibench_files(str(path), "full") == [path]
    (tmp_path / "tiny_ids.txt").write_text("1")
    (tmp_path / "debiased_removed_ids.txt").write_text("1")
    removed = tmp_path / "debiased_removed_ids.txt"
    assert vsibench_files(str(path), "debiased") == [path, removed]
    tiny = tmp_path / "tiny_ids.txt"
    assert vsibench_files(str(path), "tiny") == [path, tiny, removed]
