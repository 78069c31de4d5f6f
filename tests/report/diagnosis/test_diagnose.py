"""Tests of diagnoses of runs in the bundled rooms and in annotated scenes."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from click.testing import CliRunner
from conftest import test_data
from factories import TREE
from factories.runs import SMALL, finish_run, play

from render_agent.cli.main import cli
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.options import RunConfig
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.report.diagnosis import diagnose as module
from render_agent.report.diagnosis.diagnose import diagnose_run, diagnose_scene
from render_agent.report.diagnosis.model import Cause
from render_agent.report.diagnosis.summary import summarize_diagnoses
from render_agent.report.sentences.causes import summary_sentences
from render_agent.report.sentences.contrasts import contrast_sentences
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.scans.formats.load import load_scene
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
from render_agent.visibility.object_visibility import ObjectVisibility
from render_agent_lab.oracles.sighted_oracle import REASON_NO_BOX, REASONS

SCENES = TREE / "scenes"
QUESTIONS = SCENES / "questions.jsonl"
CORNER = "0.45,0.45,1.9,225"  # pose in room00 that shows only a corner of the room
MIDDLE = "2.1,2.0,1.6,0"
ROOM = read_ground_truth(SCENES / "room00.json")
CHAIRS, DIRECTION, SOFA, BOOKSHELF, SIZE = "1", "13", "6", "8", "9"
TURNS = 5


def reply(**fields):
    return json.dumps(fields)


def looking_replies(*labels, answer):
    """Return replies that look at the object of each label, then give the final answer."""
    points = [ROOM.only(label).centre.tolist() for label in labels]
    return [*(reply(look_at=point) for point in points), reply(answer=answer, done=True)]


def play_room00(folder, replies, start, **options):
    """Play the named questions of room00 with these replies; return the run folder."""
    defaults = {"id": tuple(replies), "view_types": ("ego",), "start": start, "max_turns": TURNS}
    path, _ = play(
        folder, QUESTIONS, ScriptedEngine(ReplayPolicy(replies), 8), **defaults | options
    )
    return RunData(path)


# never look at the objects of the question
STARING = {
    SOFA: [reply(answer="999", done=True)],
    BOOKSHELF: [reply(rotation_angle_degrees=5), reply(answer="999")],
    CHAIRS: ["no JSON"],
}

# look at all objects of the question; only the answer about the bookshelf is right
LOOKING = {
    DIRECTION: looking_replies("sofa", "door", "bookshelf", answer="A"),
    BOOKSHELF: looking_replies("bookshelf", answer="192"),
    SOFA: looking_replies("door", "sofa", answer="1"),
    SIZE: [reply(rotation_angle_degrees=90)] * 3 + [reply(answer="50", done=True)],
}


@pytest.fixture(scope="module")
def staring_run(tmp_path_factory):
    return play_room00(tmp_path_factory.mktemp("staring"), STARING, CORNER)


@pytest.fixture(scope="module")
def looking_run(tmp_path_factory):
    return play_room00(tmp_path_factory.mktemp("looking"), LOOKING, MIDDLE)


def test_unseen_objects_determine_the_cause(staring_run):
    diagnoses = diagnose_run(staring_run)
    sofa, bookshelf, chairs = (diagnoses[name] for name in (SOFA, BOOKSHELF, CHAIRS))
    assert sofa.never_seen == ("sofa",)
    assert bookshelf.never_seen == ("bookshelf",)
    assert chairs.never_seen == ("chair",)
    assert [box.category for box in chairs.boxes] == ["chair"] * 3
    sightings = [
        s for diagnosis in (sofa, bookshelf) for turn in diagnosis.turns for s in turn.sightings
    ]
    assert [s.area for s in sightings] == [0.0] * len(sightings)
    assert len(sightings) == 1 + TURNS
    assert sofa.cause is Cause.STOPPED_EARLY
    assert sofa.premature
    assert bookshelf.cause is Cause.NEVER_LOOKED
    assert not bookshelf.premature
    assert chairs.cause is Cause.NO_ANSWER
    assert chairs.repairs == TURNS


def test_first_sighting_of_each_object_is_recorded(looking_run):
    diagnoses = diagnose_run(looking_run)
    assert diagnoses[DIRECTION].named == ("sofa", "door", "bookshelf")
    assert diagnoses[DIRECTION].first_seen["bookshelf"] in (0, 3)
    assert all(turn is not None for turn in diagnoses[DIRECTION].first_seen.values())
    assert diagnoses[SOFA].first_seen == {"sofa": 2}
    causes = {name: diagnosis.cause for name, diagnosis in diagnoses.items()}
    assert causes == {
        DIRECTION: Cause.MISJUDGED,
        BOOKSHELF: Cause.RIGHT,
        SOFA: Cause.MISJUDGED,
        SIZE: Cause.MISJUDGED,
    }


def test_sightings_match_a_direct_measurement(looking_run):
    scene = load_scene(SCENES / "room00.ply", "room00")
    labels = [entry.label for entry in ROOM.objects]
    size = looking_run.config.image_size
    visibility = ObjectVisibility(
        Rasteriser(1), scene, [entry.box for entry in ROOM.objects], size, size[0]
    )
    diagnoses = diagnose_run(looking_run)
    num_clear = 0
    for state in looking_run.states:
        diagnosis = diagnoses[state.id]
        for turn, turn_diagnosis in zip(state.turns, diagnosis.turns, strict=True):
            for sighting in turn_diagnosis.sightings:
                camera = next(v.camera for v in turn.views if v.number == sighting.view)
                box = diagnosis.boxes[sighting.box]
                first_index = labels.index(box.category)
                (measured,) = visibility.look(camera, [first_index + box.number])
                assert sighting.area == pytest.approx(measured.area, abs=0.1)
                assert sighting.share == pytest.approx(measured.share, abs=0.001)
                assert sighting.distance == pytest.approx(measured.distance, abs=0.001)
                num_clear += measured.is_clear(size)
    assert num_clear >= 5


def test_counting_requires_all_boxes_to_be_seen(tmp_path):
    chairs = [entry.centre.tolist() for entry in ROOM.objects if entry.label == "chair"]
    one_chair = [reply(look_at=chairs[0]), reply(answer="1", done=True)]
    all_chairs = [reply(look_at=point) for point in chairs] + [reply(answer="1", done=True)]
    results = {}
    for name, replies in (("some", one_chair), ("every", all_chairs)):
        folder = play_room00(tmp_path / name, {CHAIRS: replies}, CORNER)
        results[name] = diagnose_run(folder)[CHAIRS]
        size = folder.config.image_size
    for diagnosis in results.values():
        clear_boxes = {
            s.box for turn in diagnosis.turns for s in turn.sightings if s.is_clear(size)
        }
        assert (diagnosis.first_seen["chair"] is not None) == (clear_boxes == {0, 1, 2})


def test_coverage_grows_when_turning(looking_run):
    coverage = [turn.coverage for turn in diagnose_run(looking_run)[SIZE].turns]
    assert coverage == sorted(coverage)
    assert coverage[0] < 0.15
    assert 0.3 < coverage[-1] < 0.6


def test_top_views_are_ignored(tmp_path):
    replies = {SOFA: [reply(view="top"), reply(view="top"), reply(answer="1", done=True)]}
    diagnosis = diagnose_run(play_room00(tmp_path, replies, MIDDLE, view_types=("top",)))[SOFA]
    assert [turn.sightings for turn in diagnosis.turns] == [(), (), ()]
    assert diagnosis.coverage == 0.0
    assert diagnosis.cause is Cause.STOPPED_EARLY


def test_around_counts_as_four_views(tmp_path):
    answer = [reply(answer="50", done=True)]
    turns = [reply(rotation_angle_degrees=90)] * 3
    around = play_room00(
        tmp_path / "a", {SIZE: answer, BOOKSHELF: answer}, MIDDLE, view_types=("around",)
    )
    single_views = play_room00(tmp_path / "b", {SIZE: turns + answer}, MIDDLE, field_of_view=90.0)
    around_coverage, single_coverage = (
        diagnose_run(run)[SIZE].coverage for run in (around, single_views)
    )
    assert around_coverage == pytest.approx(single_coverage, abs=0.02)
    (turn,) = diagnose_run(around)[BOOKSHELF].turns
    assert turn.sightings[0].share > 0.9


@pytest.mark.slow
def test_result_does_not_depend_on_processes(tmp_path):
    ids = ("0", "7", "24", "33")
    replies = {"*": [reply(rotation_angle_degrees=60), reply(answer="1", done=True)]}
    path, _ = play(
        tmp_path,
        QUESTIONS,
        ScriptedEngine(ReplayPolicy(replies), 8),
        id=ids,
        start=MIDDLE,
        max_turns=2,
    )
    folder = RunData(path)
    assert len({question.scene for question in folder.questions}) == 2
    expected = diagnose_run(folder, 1)
    assert diagnose_run(RunData(path), 2) == expected


def test_diagnoses_are_cached_until_a_question_progresses(tmp_path, monkeypatch):
    replies = {"*": [reply(rotation_angle_degrees=60), reply(answer="1", done=True)]}
    path, _ = play(
        tmp_path,
        QUESTIONS,
        ScriptedEngine(ReplayPolicy(replies), 8),
        id=("0", "3"),
        start=MIDDLE,
        max_turns=2,
    )
    log = path / "turns.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    run, diagnosed_ids = RunData(path), []
    (unfinished,) = (state.id for state in run.states if state.active)
    monkeypatch.setattr(
        module,
        "diagnose_scene",
        lambda task: diagnosed_ids.extend(s.id for s in task.pending) or diagnose_scene(task),
    )
    before = diagnose_run(run, 1)
    assert diagnose_run(run, 1) == before
    assert sorted(diagnosed_ids) == ["0", "3"]
    log.write_bytes(b"".join(lines))
    run.reload()
    after = diagnose_run(run, 1)
    assert diagnosed_ids[2:] == [unfinished]
    assert len(after[unfinished].turns) == len(before[unfinished].turns) + 1
    assert {name for name in after if after[name] != before[name]} == {unfinished}
    assert diagnose_run(RunData(path), 1) == after


def test_missing_scan_leaves_only_the_path(tmp_path):
    for name in ("room00.ply", "room00.json"):
        shutil.copy(SCENES / name, tmp_path / name)
    shutil.copy(QUESTIONS, tmp_path / "questions.jsonl")
    walk = [reply(forward_meters=0.5), reply(answer="1", done=True)]
    path, _ = play(
        tmp_path,
        tmp_path / "questions.jsonl",
        ScriptedEngine(ReplayPolicy({"*": walk}), 8),
        id=(SOFA,),
        start=MIDDLE,
        max_turns=3,
    )
    (tmp_path / "room00.ply").unlink()
    diagnosis = diagnose_run(RunData(path))[SOFA]
    assert diagnosis.path == pytest.approx(0.5)
    assert [turn.coverage for turn in diagnosis.turns] == [None, None]
    assert (diagnosis.boxes, diagnosis.cause, diagnosis.coverage) == ((), Cause.UNKNOWN, None)


@pytest.mark.parametrize("options", [{"views": "none"}, {"image_stress": "black"}], ids=str)
def test_no_sightings_without_faithful_images(tmp_path, options):
    replies = {SOFA: [reply(answer="1", done=True)], CHAIRS: ["nothing"]}
    diagnoses = diagnose_run(
        play_room00(tmp_path, replies, MIDDLE, view_types=("ego", "top"), **options)
    )
    assert {name: diagnosis.cause for name, diagnosis in diagnoses.items()} == {
        SOFA: Cause.UNKNOWN,
        CHAIRS: Cause.NO_ANSWER,
    }
    assert all(not turn.sightings for diagnosis in diagnoses.values() for turn in diagnosis.turns)


def test_mirrored_run_has_mirrored_sightings(tmp_path):
    left, right = ({CHAIRS: [reply(rotation_angle_degrees=degrees)] * 4} for degrees in (90, -90))
    runs = (
        play_room00(tmp_path / "real", left, "best"),
        play_room00(tmp_path / "mirrored", right, "best", image_stress="mirrored"),
    )
    real, mirrored = (diagnose_run(run)[CHAIRS] for run in runs)
    assert real.boxes[0].centre[1:] == mirrored.boxes[0].centre[1:]
    assert any(s.area for turn in real.turns for s in turn.sightings)
    for real_turn, mirrored_turn in zip(real.turns, mirrored.turns, strict=True):
        for a, b in zip(real_turn.sightings, mirrored_turn.sightings, strict=True):
            assert b.area == pytest.approx(a.area, rel=0.03, abs=3)
            assert b.distance == pytest.approx(a.distance, abs=0.002)
        assert mirrored_turn.coverage == pytest.approx(real_turn.coverage, abs=0.05)


def test_passive_views_are_measured(tmp_path):
    replies = {SOFA: [reply(answer="1", done=True)], BOOKSHELF: [reply(answer="192", done=True)]}
    diagnoses = diagnose_run(
        play_room00(tmp_path, replies, MIDDLE, views="tour", view_types=("ego", "top"))
    )
    (turn,) = diagnoses[BOOKSHELF].turns
    assert len({s.view for s in turn.sightings}) > 1
    assert turn.coverage > 0.4
    assert (diagnoses[BOOKSHELF].path, diagnoses[BOOKSHELF].blocked) == (0.0, 0)
    assert diagnoses[SOFA].cause in (Cause.NEVER_LOOKED, Cause.MISJUDGED)


def test_annotated_rooms_have_boxes(tmp_path):
    data = test_data("vsibench", "test.jsonl").parent
    options = {"questions": str(data / "test.jsonl"), "annotations": str(data), "limit": 6}
    config = RunConfig(batch=True, output=str(tmp_path), max_turns=3, **SMALL, **options)
    run = start_run(config)
    finish_run(run)
    folder = RunData(run.path)
    diagnoses = diagnose_run(folder)
    with_boxes = [diagnosis for diagnosis in diagnoses.values() if diagnosis.boxes]
    assert len(with_boxes) >= 3
    assert any(
        s.area for diagnosis in with_boxes for turn in diagnosis.turns for s in turn.sightings
    )
    assert all(0 < diagnosis.coverage <= 1 for diagnosis in diagnoses.values())


def test_diagnose_command(looking_run, staring_run):
    result = CliRunner().invoke(cli, ["diagnose", str(staring_run.path)])
    assert result.exit_code == 0, result.output
    assert re.search(r"^object size +2 +0 +1 +1 +0", result.stdout, re.MULTILINE)
    as_json = CliRunner().invoke(cli, ["diagnose", str(looking_run.path), "--json"])
    figures = json.loads(as_json.stdout)
    assert figures["all"]["causes"]["misjudged"] == 3
    assert figures["all"]["seen"]["well"] == {"right": 1, "wrong": 3, "percent": 25.0}
    assert figures["all"]["seen"]["not_well"] == {"right": 0, "wrong": 0, "percent": None}
    assert figures["types"].keys() == {q.type for q in looking_run.questions}


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"image_stress": "mirrored"}, marks=pytest.mark.slow),
        pytest.param({"views": "four"}, marks=pytest.mark.slow),
        pytest.param({"views": "oracle"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_diagnosis_agrees_with_the_witness_policy(tmp_path, options):
    config = RunConfig(
        batch=True, benchmark="rooms", scene=("room03",), model="witness",
        output=str(tmp_path), **SMALL, **options,
    )  # fmt: skip
    run = start_run(config)
    finish_run(run)
    folder = RunData(run.path)
    states, diagnoses = folder.states, diagnose_run(folder)
    expected_reasons = {
        True: {REASONS[True], REASON_NO_BOX},
        False: {REASONS[False]},
        None: {REASONS[None]},
    }
    for state in states:
        diagnosis = diagnoses[state.id]
        reason = json.loads(state.turns[-1].reply)["reasoning"]
        assert reason in expected_reasons[diagnosis.saw_all], state.id
        if reason == REASONS[True] and diagnosis.first_seen:  # it answers as soon as it has seen
            assert max(diagnosis.first_seen.values()) == len(state.turns) - 1
            assert diagnosis.cause is Cause.RIGHT
    assert {diagnosis.saw_all for diagnosis in diagnoses.values()} >= (
        {True} if "views" in options else {True, False}
    )
    figures = summarize_diagnoses(states, diagnoses, (640, 480))
    for entry in (figures["all"], *figures["types"].values()):
        causes, by_visibility = entry["causes"], entry["seen"]
        assert by_visibility["well"]["wrong"] == causes["misjudged"]
        assert (
            by_visibility["not_well"]["wrong"] == causes["never looked"] + causes["stopped early"]
        )
        assert (
            by_visibility["well"]["right"] + by_visibility["not_well"]["right"] == causes["right"]
        )


def test_right_answers_without_boxes_are_not_counted_as_seen(tmp_path):
    """Regression test: right answers without boxes for all named objects were counted as seen clearly."""
    for name in ("room00.ply", "room00.json"):
        shutil.copy(SCENES / name, tmp_path / name)
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    row = next(row for row in rows if str(row["id"]) == DIRECTION)
    text = row["question"].replace("sofa", "unicorn")
    question_rows = [row | {"id": n, "question": text} for n in range(2)]
    order = {"question_type": "obj_appearance_order", "options": ["A. tv, door", "B. door, tv"]}
    order_text = (
        "What will be the first-time appearance order of the following categories in the video: "
    )
    order |= {"question": order_text + "tv, door?", "ground_truth": "A"}
    question_rows += [row | order | {"id": 2 + n} for n in range(2)]
    (tmp_path / "questions.jsonl").write_text(
        "".join(json.dumps(diagnosis) + "\n" for diagnosis in question_rows)
    )
    right = row["ground_truth"]
    answers = (right, "B" if right == "A" else "A", "A", "B")
    replies = {
        str(n): looking_replies("door", "bookshelf", answer=answer)
        for n, answer in enumerate(answers)
    }
    engine = ScriptedEngine(ReplayPolicy(replies), 8)
    path, _ = play(tmp_path, tmp_path / "questions.jsonl", engine, start=MIDDLE, max_turns=TURNS)
    folder = RunData(path)
    diagnoses = diagnose_run(folder)
    causes = [diagnoses[str(n)].cause for n in range(4)]
    assert causes == [Cause.RIGHT, Cause.UNKNOWN] * 2
    assert {diagnosis.saw_all for diagnosis in diagnoses.values()} == {None}
    assert {turn is None for turn in diagnoses["0"].first_seen.values()} == {False}
    empty = {"right": 0, "wrong": 0, "percent": None}
    assert summarize_diagnoses(folder.states, diagnoses, (640, 480))["all"]["seen"] == {
        "well": empty,
        "not_well": empty,
    }


def test_figures_add_up(looking_run, staring_run):
    for folder in (looking_run, staring_run):
        states, diagnoses = folder.states, diagnose_run(folder)
        figures = summarize_diagnoses(states, diagnoses, (640, 480))
        causes = Counter(str(diagnosis.cause) for diagnosis in diagnoses.values())
        assert {k: v for k, v in figures["all"]["causes"].items() if v} == dict(causes)
        for name in ("questions", "premature", "blocked", "returns", "repairs"):
            parts = [line[name] for line in figures["types"].values()]
            assert figures["all"][name] == sum(parts)
        assert figures["all"]["coverage"] == sorted(figures["all"]["coverage"])
        assert summary_sentences(figures)[: len(contrast_sentences(figures))] == contrast_sentences(
            figures
        )


def test_question_without_ground_truth_is_open(looking_run):
    run = RunData(looking_run.path)
    states = run.states
    for state in states:
        state.question = replace(state.question, ground_truth=None)
    diagnoses = diagnose_run(run)
    assert {diagnosis.cause for diagnosis in diagnoses.values()} == {Cause.OPEN}
    (sentence,) = contrast_sentences(summarize_diagnoses(states, diagnoses, (640, 480)))
    assert f"{len(diagnoses)} not judged" in sentence
    assert diagnoses[SOFA].first_seen == {"sofa": 2}
