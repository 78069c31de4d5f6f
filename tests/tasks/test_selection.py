import json

import pytest
from factories.runs import make_config, make_questions

from render_agent.errors import QuestionsError, RenderAgentError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.tasks.question_types import DIRECTION_TYPES
from render_agent.tasks.rows import add_letters
from render_agent.tasks.selection import question_files, single_question


@pytest.fixture
def select_ids(tmp_path):
    """Select from eight questions about one room: even ones are about a count, odd ones about a direction."""
    questions = make_questions(tmp_path, 8)

    def choose(**options):
        return [
            question.id
            for question in build(make_config(tmp_path, questions, **options)).questions()
        ]

    return choose


ALL = [str(number) for number in range(8)]


def test_all_questions_are_selected_in_order(select_ids):
    assert select_ids() == ALL


def test_filters_and_limit(select_ids):
    assert select_ids(limit=3) == ALL[:3]
    assert select_ids(limit=100) == ALL
    assert select_ids(type=("object_counting",)) == ALL[::2]
    assert select_ids(type=("object_counting", "object_rel_direction_easy")) == ALL
    assert select_ids(id=("5", "2")) == ["2", "5"]
    assert select_ids(scene=("room",), type=("object_counting",), limit=2) == ["0", "2"]


def test_shuffle_depends_on_the_seed_and_precedes_the_limit(select_ids):
    shuffled = select_ids(shuffle=True)
    assert sorted(shuffled) == ALL != shuffled
    assert select_ids(shuffle=True) == shuffled
    assert select_ids(shuffle=True, limit=3) == shuffled[:3]
    assert any(select_ids(shuffle=True, seed=seed) != shuffled for seed in (1, 2, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": ("counting",)}, r"type 'counting'.*object_rel_direction_easy.*'object_counting'"),
        ({"type": ("object_counting", "typo")}, "type 'typo'"),
        ({"scene": ("hall",)}, "scene 'hall'.*room"),
        ({"id": ("9",)}, "id '9'"),
        ({"id": ("1",), "type": ("object_counting",)}, "--type.*--id"),
    ],
)
def test_filter_without_matches_is_named(select_ids, options, message):
    with pytest.raises(QuestionsError, match=message):
        select_ids(**options)


def test_filter_accepts_the_names_that_tables_print():
    def types(*names):
        config = RunConfig(batch=True, benchmark="rooms", type=names)
        return {question.type for question in build(config).questions()}

    assert types("room size", "object_counting") == {"room_size_estimation", "object_counting"}
    assert types("relative direction") == set(DIRECTION_TYPES)


@pytest.mark.parametrize(("scene", "nearest"), [("hall.obj", "'hall'"), ("halls", "'hall'")])
def test_missing_scan_error_lists_the_scans_that_exist(tmp_path, scene, nearest):
    questions = make_questions(tmp_path, 2)
    (tmp_path / "room.ply").rename(tmp_path / "hall.ply")
    for scenes in ((scene, scene), (scene, "hall")):
        rows = [json.loads(line) | {"scene_name": name} for line, name in zip(questions.read_text().splitlines(), scenes, strict=True)]  # fmt: skip
        questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with pytest.raises(RenderAgentError, match=rf"hall\.ply.*{nearest}"):
            build(RunConfig(batch=True, benchmark=str(questions))).questions()


def test_duplicate_choices_are_rejected():
    with pytest.raises(QuestionsError, match="'left'"):
        add_letters(["left", "right", "left "])


def test_bundled_rooms_need_no_other_options():
    questions = build(RunConfig(batch=True, benchmark="rooms")).questions()
    assert len(questions) >= 100
    assert all(question.scan.is_file() for question in questions)


def test_unknown_benchmark_error_lists_the_known_ones(tmp_path):
    with pytest.raises(SetupError, match=r"none\.jsonl.*vsibench, rooms,.* revsi"):
        build(RunConfig(batch=True, benchmark=str(tmp_path / "none.jsonl"))).questions()


def test_vsibench_without_question_file_is_rejected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SetupError, match="VSI-Bench's questions"):
        build(RunConfig(batch=True)).questions()


def test_questions_option_is_rejected_for_other_benchmarks(tmp_path):
    path = make_questions(tmp_path)
    with pytest.raises(UsageError, match="--benchmark FILE"):
        build(RunConfig(batch=True, benchmark="rooms", questions=str(path))).questions()


def test_only_scans_of_selected_questions_are_required(tmp_path):
    rows = [
        {"id": n, "dataset": "scannet", "scene_name": f"s{n}", "question_type": "object_counting", "question": "?",
         "options": None, "ground_truth": "2"}
        for n in range(3)
    ]  # fmt: skip
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scan = tmp_path / "scans/s1/s1_vh_clean_2.ply"
    scan.parent.mkdir(parents=True)
    scan.touch()
    config = {"batch": True, "questions": str(path), "scannet": (str(tmp_path),)}
    questions = build(RunConfig(**config, allow_missing=True)).questions()
    assert [question.scan for question in questions] == [None, scan, None]
    assert [q.scan for q in build(RunConfig(**config, scene=("s1",))).questions()] == [scan]
    with pytest.raises(SetupError, match=r"2 of 3 scenes.* 2 of 3 questions.*scannet s0, s2"):
        build(RunConfig(**config)).questions()
    for allowed in (False, True):
        with pytest.raises(SetupError, match="--scannet DIR"):
            build(RunConfig(**config, limit=1, allow_missing=allowed)).questions()


def test_dataset_filter(tmp_path):
    scan = tmp_path / "room.ply"
    scan.touch()
    path = tmp_path / "q.jsonl"
    row = {"scene_name": "room", "question_type": "object_counting", "question": "?", "ground_truth": "2"}  # fmt: skip
    rows = [row | {"id": name, "dataset": name} for name in ("scannet", "scannetpp")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = RunConfig(batch=True, benchmark=str(path), dataset=("scannetpp",))
    assert [question.id for question in build(config).questions()] == ["scannetpp"]
    assert config.partial
    with pytest.raises(QuestionsError, match="dataset 'kitti'"):
        build(RunConfig(batch=True, benchmark=str(path), dataset=("kitti",))).questions()


@pytest.mark.parametrize("options", [{"subset": "tiny"}, {"annotations": "x"}])
def test_vsibench_options_are_rejected_for_other_benchmarks(options):
    flag = "--" + next(iter(options)).replace("_", "-")
    with pytest.raises(UsageError, match=f"{flag} .*--benchmark vsibench"):
        build(RunConfig(batch=True, benchmark="rooms", **options)).questions()


def test_question_files(tmp_path):
    path = make_questions(tmp_path)
    assert question_files(make_config(tmp_path, path)) == [path]
    [rooms] = question_files(RunConfig(batch=True, benchmark="rooms"))
    assert rooms.name == "questions.jsonl"
    vsibench = RunConfig(batch=True, questions=str(path))
    assert question_files(vsibench) == [path]
    assert question_files(RunConfig(ply="x.ply", question="?")) == []


def test_single_question_has_its_options_and_scan(tmp_path):
    scan = tmp_path / "house.ply"
    scan.touch()
    config = RunConfig(ply=str(scan), question="Where is the sofa?", option=("left", "right"))
    [question] = build(config).questions()
    assert (question.text, question.options, question.answer_form) == (
        "Where is the sofa?", ("A. left", "B. right"), "letter",
    )  # fmt: skip
    assert (question.scan, question.scene, question.ground_truth) == (scan, "house", None)
    assert single_question(RunConfig(ply=str(scan), question="?")).answer_form == "text"


def test_links_keep_their_names(tmp_path):
    """The hub's cache stores files under their hash, with links under their original names."""
    path = make_questions(tmp_path)
    stored = path.rename(tmp_path / "0a1b2c")
    path.symlink_to(stored)
    config = RunConfig(batch=True, questions=str(path), annotations=str(tmp_path)).absolute()
    assert config.questions == str(path)
    link = tmp_path / "s_vh_clean_2.ply"
    link.symlink_to(tmp_path / "room.ply")
    single = RunConfig(ply=str(link), question="?").absolute()
    assert single_question(single).scan == link


def test_missing_scan_is_named(tmp_path):
    with pytest.raises(SetupError, match=r"none\.ply"):
        build(RunConfig(ply=str(tmp_path / "none.ply"), question="?")).questions()


@pytest.mark.parametrize(
    ("choices", "options"),
    [
        ([], ()),
        (["left", "right"], ("A. left", "B. right")),
        (["A. left", "B. right"], ("A. left", "B. right")),
        (["(a) left", "(b) right"], ("(a) left", "(b) right")),
        ([" left ", "right"], ("A. left", "B. right")),
    ],
)
def test_choices_without_letters_get_letters(choices, options):
    assert add_letters(choices) == options


@pytest.mark.parametrize("choices", [[""], ["left", " "], ["x"] * 27, ["A. left", "right"]])
def test_invalid_choices_are_rejected(choices):
    with pytest.raises(QuestionsError):
        add_letters(choices)
