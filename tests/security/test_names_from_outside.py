"""Names of questions, scenes and scans map to distinct files within their folder."""

import json
import unicodedata

import pytest
from factories.runs import make_config, make_questions, play, walking_engine
from hypothesis import given
from hypothesis import strategies as st

from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import QuestionsError, RunLogError, SetupError
from render_agent.runs.log.lines import question_from_json, question_to_json
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.score.predictions import read_predictions
from render_agent.tasks.rooms import load_with_scans
from render_agent.tasks.row_files import load_questions
from render_agent.tasks.rows import question_from_row
from render_agent.tasks.scan_folders import find_scan, is_safe_name, with_scans
from render_agent.util.contained_paths import is_image_name
from render_agent.util.safe_parse import ValidationError
from render_agent.views.image_store import question_file, safe_name, scene_file

ODD_NAMES = [
    "..", ".", "", "/etc/passwd", "..\\..\\x", "C:\\x", "a\x00b", "a\x1b[2Jb", "\u202egnp.exe", "x" * 5000, "A", "a",
    "É", "E\u0301", "con", "CON", "lpt9", "scenes", "a.", "a ", ".hidden", "-rf", "$HOME", "%2e%2e", "<script>", "\ud800",
    "ﬁ", "fi", "ı", "i",
]  # fmt: skip

ODD_TEXTS = st.text(st.sampled_from("aA.é\u0301/\\\0\n ~-_0:con\u202e"), max_size=12)


def assert_safe_component(name):
    assert name.isascii()
    assert name not in ("", ".", "..")
    assert not set(name) & set('/\\:*?"<>|\0')
    assert not name.startswith((".", "-"))
    assert not name.endswith((".", " "))
    assert len(name) <= 100
    assert name.partition(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt9"}


@given(ODD_TEXTS, ODD_TEXTS)
def test_names_map_to_distinct_files_on_any_file_system(first, second):
    assert_safe_component(safe_name(first))
    if first != second:
        first_file, second_file = (
            unicodedata.normalize("NFC", safe_name(name)).casefold().rstrip(". ")
            for name in (first, second)
        )
        assert first_file != second_file
        assert question_file(first, 0, "ego").lower() != scene_file(second, "ego").lower()


def test_odd_names_become_safe_distinct_path_components():
    for name in ODD_NAMES:
        assert_safe_component(safe_name(name))
        for file in (question_file(name, 3, "ego"), scene_file(name, "top")):
            assert is_image_name(file)
    assert len({safe_name(name).lower() for name in ODD_NAMES}) == len(set(ODD_NAMES))
    assert len(safe_name("../x").rpartition(".")[2]) * 4 >= 128, "bits of the hash"


def row(**changes):
    return {
        "id": "1", "dataset": "scannet", "scene_name": "a", "question_type": "object_counting",
        "question": "How many?", "ground_truth": "2", "options": None,
    } | changes  # fmt: skip


@pytest.mark.parametrize("column", ["id", "dataset", "scene_name"])
@pytest.mark.parametrize("character", ["\0", "\n", "\x1b", "\x9b", "\u202e", "\ud800"])
def test_unprintable_names_are_refused(column, character):
    with pytest.raises(QuestionsError, match=f"{column} "):
        question_from_row(row(**{column: f"a{character}b"}), "mine", None)


def test_empty_scene_names_are_refused():
    assert not is_safe_name("")
    with pytest.raises(QuestionsError, match="scene_name"):
        question_from_row(row(scene_name=""), "mine", None)


@pytest.mark.parametrize("scene", ["..", "../a", "/a", "a/b", "a\\b", "."])
def test_scans_are_searched_only_in_their_folder(tmp_path, scene):
    inner = tmp_path / "data" / "scans"
    (inner / "a").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "data", inner, inner / "a"):
        (folder / "a.ply").write_bytes(b"ply\n")
    (inner / "a" / "a_vh_clean_2.ply").write_bytes(b"ply\n")
    assert not is_safe_name(scene)
    assert find_scan("scannet", scene, {"scannet": (str(tmp_path / "data"),)}) is None
    assert find_scan("scannet", "a", {"scannet": (str(tmp_path / "data"),)}) is not None
    file = inner / "questions.jsonl"
    lines = [json.dumps(row(id=str(n), scene_name=s)) for n, s in enumerate((scene, "a"))]
    (inner / "a.ply").write_bytes(b"ply\n")
    file.write_text("\n".join(lines))
    result = {question.scene: question.scan for question in load_with_scans(file, "mine")}
    assert result == {scene: None, "a": inner / "a.ply"}


def test_same_scene_name_in_two_datasets_is_refused():
    questions = [
        question_from_row(row(id=str(n), dataset=name), "vsibench", None)
        for n, name in enumerate(("scannet", "arkitscenes"))
    ]
    with pytest.raises(SetupError, match=r"'a' .*arkitscenes .*scannet.*--dataset"):
        with_scans(questions, {})


def test_run_with_odd_names_stays_in_its_folder(tmp_path):
    names = ["../../up", "/abs", "con", "A", "a", "É", "E\u0301", "x" * 300, "<b>", "scenes"]
    questions = make_questions(tmp_path, 1)
    row = json.loads(questions.read_text())
    rows = [row | {"id": name} for name in names]
    questions.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    before = set(tmp_path.rglob("*"))
    path, result = play(tmp_path, questions, walking_engine(0), max_turns=2, views="free")
    assert result["counts"]["questions"] == len(names)
    new = {file for file in tmp_path.rglob("*") if file not in before}
    assert all(file == path or path in file.parents for file in new - {path.parent})
    views = [file for file in (path / "views").iterdir() if file.name != "scenes"]
    assert len({file.name.lower() for file in views}) == len(names)


def test_requested_views_are_not_paths(tmp_path):
    requests = ["../../up", "/etc/passwd", "..", "ego/../../x", "ego\0", "x" * 5000, 10**40, -1]
    replies = [json.dumps({"view": view, "rotation_angle_degrees": 10}) for view in requests]
    questions = make_questions(tmp_path, 1)
    before = set(tmp_path.rglob("*"))
    engine = ScriptedEngine(ReplayPolicy({"*": replies}))
    path, _ = play(tmp_path, questions, engine, max_turns=len(replies) + 1)
    new = set(tmp_path.rglob("*")) - before - {path.parent, path}
    assert all(path in file.parents for file in new)
    images = [str(file.relative_to(path)) for file in (path / "views").rglob("*.png")]
    assert len(images) > len(requests)
    assert all(map(is_image_name, images))


@pytest.mark.parametrize("name", ["x" * 1_000_000, "\x1b[2J" * 100_000])
def test_long_names_are_shortened_in_messages(tmp_path, name):
    file = tmp_path / "predictions.jsonl"
    question = question_from_row(row(), "mine", None)
    file.write_text(json.dumps({"id": name, "prediction": "A"}))
    with pytest.raises(QuestionsError) as raised:
        read_predictions(file, [question])
    assert len(str(raised.value)) < 1000
    for changed in ({"question_type": name}, {"ground_truth": name}, {"options": name}):
        with pytest.raises(QuestionsError) as raised:
            question_from_row(row(**changed), "mine", None)
        assert len(str(raised.value)) < 1000
    rows = tmp_path / "rows.jsonl"
    plain = "y" * 1_000_000
    rows.write_text((json.dumps(row(id=plain)) + "\n") * 2)
    with pytest.raises(QuestionsError, match="duplicate id") as raised:
        load_questions(rows, "mine")
    assert len(str(raised.value)) < 1000


def test_scan_with_odd_name_can_be_used_and_resumed(tmp_path):
    make_questions(tmp_path, 1)
    scan = tmp_path / "a\n\x1b[2J\u202eb.ply"
    (tmp_path / "room.ply").rename(scan)
    config = make_config(tmp_path, "x", batch=False, ply=str(scan), question="What?")
    run = start_run(config.__class__(**{**config.to_json(), "benchmark": "vsibench"}))
    run.close()
    assert RunData(run.path).questions[0].scene == "a\\n\\u001b[2J\\u202eb"


@pytest.mark.parametrize("name", ["id", "dataset", "scene"])
def test_questions_in_run_folders_are_validated(tmp_path, name):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking_engine(1))
    line = json.loads((path / "questions.jsonl").read_text())
    (path / "questions.jsonl").write_text(json.dumps(line | {name: "a\x1b[2J"}) + "\n")
    with pytest.raises(RunLogError, match=rf"questions\.jsonl is damaged: line 1 .*{name}"):
        _ = RunData(path).questions


def test_question_length_is_limited():
    row = {
        "id": 0,
        "dataset": "x",
        "scene_name": "y",
        "question_type": "object_counting",
        "ground_truth": "3",
    }
    with pytest.raises(QuestionsError, match="100,000"):
        question_from_row(row | {"question": "<b>" * 40_000}, "x", None)
    line = question_to_json(question_from_row(row | {"question": "How many?"}, "x", None))
    assert question_from_json(json.loads(json.dumps(line))).text == "How many?"
    with pytest.raises(ValidationError, match="100,000"):
        question_from_json(line | {"question": "<b>" * 40_000})
