"""`--views start|four|top|random-walk|tour|coverage|oracle`: all views at once, chosen by a policy."""

import hashlib
import json
import re
import shutil

import pytest
from factories import TREE
from factories.runs import (
    comparable_results,
    make_config,
    make_questions,
    play,
    resume,
    transcripts,
    truncate_log,
)

from render_agent import registry
from render_agent.cli.dry_run import dry_run
from render_agent.dialogue.chat import image_files
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.engines.token_estimate import image_tokens, text_tokens
from render_agent.errors import SetupError, UsageError
from render_agent.runs.build import build
from render_agent.runs.cost.run_estimate import FOLLOWING_TOKENS, RESTATE_TOKENS
from render_agent.runs.preflight import count_images, disk_needed
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

SCENES = TREE / "scenes"

ROOM = {"benchmark": "rooms", "scene": ("room07",), "limit": 4}  # smallest bundled room with boxes

POSE = r"from \[-?\d+\.\d\d, -?\d+\.\d\d, -?\d+\.\d\d\], yaw -?\d+, pitch -?\d+"


def hesitant_engine(batch_size=64):
    """Return an engine that answers in turn 2, after an unreadable reply and one without an answer."""
    unusable_replies = ["I'd say left.", {"reasoning": "…", "answer": None, "done": True}]
    last = {"reasoning": "…", "answer": "3", "done": True}
    texts = [
        entry if isinstance(entry, str) else json.dumps(entry)
        for entry in (*unusable_replies, last)
    ]
    by_id = {str(n): [*texts[:2], texts[2].replace("3", "A")] for n in (1, 3, 5)}
    return ScriptedEngine(ReplayPolicy({"*": texts} | by_id), batch_size)


def run_to_completion(folder, engine=None, **options):
    """Run a few questions of a room or of a generated scan; return the run folder and its results."""
    generated = folder / "questions.jsonl"
    questions = generated if generated.exists() else make_questions(folder, 4)
    return play(folder, questions, engine or hesitant_engine(), **{"max_turns": 4} | options)


EXPECTED_KINDS = [
    ("start", ("ego", "top", "around"), ["ego"]),
    ("four", ("ego", "top"), ["ego"] * 4),
    ("top", ("top",), ["top"]),
    ("random-walk", ("ego", "top", "around"), ["top"] + ["ego"] * 4),
    ("random-walk", ("ego",), ["ego"] * 4),
    ("tour", ("top", "ego"), ["top"] + ["ego"] * 4),
    ("coverage", ("top", "ego"), ["top"] + ["ego"] * 4),
    ("tour", ("around", "ego"), ["ego"] * 4),
]


@pytest.mark.parametrize(("views", "kinds", "expected_kinds"), EXPECTED_KINDS)
def test_all_views_come_in_turn_0_and_match_the_budget(tmp_path, views, kinds, expected_kinds):
    path, result = run_to_completion(tmp_path, views=views, view_types=kinds)
    assert result["counts"]["answered"] == 4
    assert result["counts"]["repairs"] == 4
    assert result["notes"][-1].startswith("views: ")
    assert result["notes"][-1].endswith(f"not chosen by the model (--views {views})")
    files = {}
    for name, (first, *later) in transcripts(path).items():
        assert [view["kind"] for view in first["views"]] == expected_kinds
        assert [view["number"] for view in first["views"]] == list(range(len(expected_kinds)))
        assert len(later) == 2
        assert not any(turn["views"] or image_files(turn["messages"]) for turn in later)
        files[name] = [view["file"] for view in first["views"]]
        assert image_files(first["messages"]) == files[name]
        assert len(set(files[name])) == len(expected_kinds)
    assert len(expected_kinds) == registry.load("view policy", views)().max_views(kinds, 4)
    drawn_files = {file.relative_to(path).as_posix() for file in path.glob("views/**/*.png")}
    assert drawn_files == {file for names in files.values() for file in names}
    config = make_config(tmp_path, tmp_path / "questions.jsonl", views=views, view_types=kinds, max_turns=4)  # fmt: skip
    parts = build(config)
    assert len(drawn_files) == count_images(parts, parts.questions())
    folder_size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert folder_size < disk_needed(parts, parts.questions())


def test_opening_matches_free_dialogue(tmp_path):
    questions = make_questions(tmp_path, 2)
    free, _ = play(tmp_path, questions, hesitant_engine(), max_turns=3)
    for views in ("random-walk", "tour"):
        passive, _ = play(tmp_path, questions, hesitant_engine(), max_turns=3, views=views)
        for name, turns in transcripts(free).items():
            opening = turns[0]["views"]
            assert transcripts(passive)[name][0]["views"][: len(opening)] == opening
            for view in opening:
                free_image, passive_image = (
                    (path / view["file"]).read_bytes() for path in (free, passive)
                )
                assert free_image == passive_image


def test_prompt_and_feedback_of_passive_dialogue(tmp_path):
    path, _ = run_to_completion(tmp_path, views="tour")
    first, second, third = transcripts(path)["0"]
    system, user = first["messages"]
    instructions = system["content"][0]["text"]
    assert not re.search(r"forward|rotation|look_at|ask for|\{\{|\}\}|you stand", instructions)
    labels = [piece["text"] for piece in user["content"][1:] if piece["type"] == "text"]
    assert re.fullmatch(r"View 0 \(top\), cut at z = \d\.\d\d m:", labels[0])
    for number, label in enumerate(labels[1:], start=1):
        assert re.fullmatch(rf"View {number} \(ego\), {POSE}:", label)
    for turn, previous, number in ((second, first, 2), (third, second, 3)):
        (message,) = turn["messages"]
        assert message["content"][0]["text"] == f"{previous['happened']}\n\nTurn {number} of 4."
    assert first["happened"].startswith("Your reply could not be read: it contains no JSON object")
    assert second["happened"].startswith("You set done without an answer: give one number")
    assert second["happened"].endswith(
        "You have seen all views, and the camera cannot move: answer now and set done to true."
    )
    cameras = [turn[name] for turn in (first, second, third) for name in ("stood", "camera")]
    assert all(camera == cameras[0] for camera in cameras)


@pytest.fixture(scope="module")
def default_runs(tmp_path_factory):
    """Runs of the same questions with the default schedule, by policy."""
    folder = tmp_path_factory.mktemp("usual")
    views = ("random-walk", "oracle")
    return {name: run_to_completion(folder, views=name, max_turns=3, **ROOM)[0] for name in views}


@pytest.mark.parametrize(("batched", "together", "batch_size"), [(0, 1, 1), (1, 2, 2)])
def test_schedule_does_not_change_transcripts(
    tmp_path, default_runs, batched, together, batch_size
):
    schedule = {"max_batched_turns": batched, "finish_together": together}
    for views, expected in default_runs.items():
        engine = hesitant_engine(batch_size)
        path, _ = run_to_completion(tmp_path, engine, views=views, max_turns=3, **ROOM, **schedule)
        assert transcripts(path) == transcripts(expected)
        files = list(expected.glob("views/**/*.png"))
        assert files
        for file in files:
            assert (path / file.relative_to(expected)).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    "views",
    [
        "random-walk",
        pytest.param("oracle", marks=pytest.mark.slow),
        pytest.param("four", marks=pytest.mark.slow),
        pytest.param("tour", marks=pytest.mark.slow),
        pytest.param("coverage", marks=pytest.mark.slow),
    ],
)
def test_interrupted_run_resumes_identically_and_restores_images(tmp_path, views):
    path, _ = run_to_completion(tmp_path, views=views, **ROOM)
    expected, results = transcripts(path), comparable_results(path)
    files = {file: file.read_bytes() for file in path.glob("views/**/*.png")}
    for num_lines in (1, 6):  # one turn; or the first turn of all questions and the second of two
        truncate_log(path, num_lines)
        shutil.rmtree(path / "views")
        resume(path, hesitant_engine())
        assert transcripts(path) == expected
        assert comparable_results(path) == results
        assert {file: file.read_bytes() for file in path.glob("views/**/*.png")} == files


def test_start_applies_to_passive_dialogues(tmp_path):
    for views in ("start", "tour"):
        started = set()
        for start in ("middle", "0.5,0.5,1.5,90"):
            path, _ = run_to_completion(tmp_path, views=views, start=start, limit=1, max_turns=3)
            (camera,) = [
                view["camera"]
                for view in transcripts(path)["0"][0]["views"]
                if view["kind"] == "ego"
            ][:1]
            started.add((*camera["position"], camera["yaw"]))
        assert (0.5, 0.5, 1.5, 90.0) in started
        assert len(started) == 2


@pytest.mark.parametrize(
    ("views", "kinds", "missing"),
    [("top", ("ego",), "top"), ("top", ("ego", "around"), "top"), ("start", ("top",), "ego"),
     ("four", ("top", "around"), "ego"), ("tour", ("top",), "ego"), ("oracle", ("around",), "ego"),
     ("random-walk", ("top", "around"), "ego")],
)  # fmt: skip
def test_excluded_view_types_are_refused(tmp_path, views, kinds, missing):
    with pytest.raises(UsageError, match=rf"--views {views} .* {missing}\..*--view-types"):
        build(make_config(tmp_path, tmp_path, views=views, view_types=kinds))


def test_oracle_without_boxes_is_refused_before_the_run_starts(tmp_path):
    config = make_config(tmp_path, make_questions(tmp_path, 2), views="oracle")
    with pytest.raises(SetupError, match=r"room\b.*--annotations"):
        start_run(config)
    assert not (tmp_path / "runs").exists()


def test_dry_run_counts_first_turn_images_once(tmp_path, capsys):
    options = {"engine": "openai", "model": "some", "json": True, "max_turns": 4, "views": "tour"}
    config = make_config(tmp_path, make_questions(tmp_path, 3), **options)
    assert dry_run(config) == 0
    output = json.loads(capsys.readouterr().out)
    assert len(image_files(output["messages"])) == 5
    opening = text_tokens(output["messages"]) + 5 * image_tokens("some", *config.image_size)
    later = config.max_new_tokens + FOLLOWING_TOKENS  # per earlier turn, without images
    restating = opening + 3 * later + config.max_new_tokens + RESTATE_TOKENS
    assert output["estimate"]["prompt_tokens"] == 3 * (
        4 * opening + (1 + 2 + 3) * later + restating
    )
    assert output["drawing_seconds"] > 0


@pytest.mark.parametrize(
    ("options", "refused"),
    [({"views": "oracle"}, True), ({"model": "oracle", "views": "none"}, True), ({}, False)],
    ids=str,
)
def test_changed_boxes_are_refused_if_results_depend_on_them(tmp_path, options, refused):
    for name in ("room07.ply", "room07.json"):
        shutil.copy(SCENES / name, tmp_path / name)
    rows = (SCENES / "questions.jsonl").read_text("utf-8").splitlines(keepends=True)
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(row for row in rows if '"room07"' in row), "utf-8")
    run = start_run(make_config(tmp_path, questions, limit=2, max_turns=2, **options))
    run.close()
    truth = tmp_path / "room07.json"
    recorded = RunData(run.path).record["sha256"]["annotations"]
    assert recorded == {str(truth): hashlib.sha256(truth.read_bytes()).hexdigest()}
    resume_run(RunData(run.path), {}).close()
    truth.write_text(truth.read_text("utf-8") + "\n", "utf-8")
    if not refused:
        resume_run(RunData(run.path), {}).close()
        return
    with pytest.raises(SetupError, match=r"room07\.json.*SHA-256"):
        resume_run(RunData(run.path), {})
