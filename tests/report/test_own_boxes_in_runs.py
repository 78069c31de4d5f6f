"""A scan with boxes of the user's has all that a room with the program's own annotations has."""

import json

import pytest
from factories.changes import OBJECTS, changeable_room
from factories.runs import comparable_results, finish_run, make_config, play, transcripts

from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import SetupError
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

IDS = ("count", "size", "far", "near", "side")  # all that boxes determine


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the same room twice: with ground truth of make-rooms, and with boxes of a user."""
    annotated, own = (tmp_path_factory.mktemp(name) for name in ("annotated", "own"))
    for folder in (annotated, own):
        changeable_room(folder)
    (own / "room.json").unlink()
    boxes = [
        {
            "label": label,
            "center": [(a + b) / 2 for a, b in zip(low, high, strict=True)],
            "size": [b - a for a, b in zip(low, high, strict=True)],
        }
        for label, low, high, _ in OBJECTS
    ]
    (own / "room.boxes.json").write_text(json.dumps(boxes))
    return annotated, own


def looking_engine():
    """Return an engine that measures, looks at the shelf and answers."""
    replies = [
        json.dumps({"look_at": [4.6, 0.7, 0.6]}),
        json.dumps({"rotation_angle_degrees": 90}),
        json.dumps({"answer": "2", "done": True}),
    ]
    return ScriptedEngine(ReplayPolicy(dict.fromkeys(IDS, replies)), 8)


def both(folders, **options):
    """Run the questions about both rooms; return the two run folders."""
    runs = []
    for folder in folders:
        run = start_run(make_config(folder, folder / "questions.jsonl", id=IDS, max_turns=4, **options))  # fmt: skip
        finish_run(run)
        runs.append(run.path)
    return runs


def assert_equal_runs(annotated, own):
    """Assert that two runs are equal, except for the floor area, which boxes do not have."""
    text = json.dumps(transcripts(annotated)).replace("area: 20.0 square", "area: unknown square")
    assert json.loads(text) == transcripts(own)
    assert comparable_results(own) == comparable_results(annotated)


def test_diagnosis_names_the_same_causes_and_visibility(folders):
    found = []
    for folder in folders:
        options = {"id": IDS, "max_turns": 4}
        path, _ = play(folder, folder / "questions.jsonl", looking_engine(), **options)
        found.append(diagnose_run(RunData(path)))
    annotated, own = found
    assert own == annotated
    assert own["size"].first_seen["shelf"] is not None
    assert own["far"].named == ("sofa", "lamp")


@pytest.mark.parametrize(
    "options",
    [
        {"views": "oracle", "model": "oracle"},
        {"model": "witness"},
        {"model": "witness", "probe": ("map",)},
        {"change": ("remove", "move", "swap"), "model": "oracle"},
        {"tools": "graph", "model": "oracle"},
        {"tools": "measure", "model": "oracle"},
    ],
    ids=lambda options: "-".join(options),
)
def test_runs_match_those_of_an_annotated_room(folders, options):
    annotated, own = both(folders, **options)
    assert_equal_runs(annotated, own)
    results = comparable_results(own)
    if options["model"] == "oracle":
        originals = [row for row in results["questions"] if row["question_id"] in IDS]
        assert [row["score"] for row in originals] == [1.0] * len(IDS)
    assert any(file.endswith("room.boxes.json") for file in RunData(own).record["sha256"]["annotations"])  # fmt: skip


def test_boxes_that_do_not_fit_are_refused_before_the_run_folder_exists(tmp_path):
    changeable_room(tmp_path)
    (tmp_path / "room.json").unlink()
    boxes = [{"label": "chair", "center": [80, 80, 40], "size": [40, 40, 80]}]
    (tmp_path / "room.boxes.json").write_text(json.dumps(boxes))
    with pytest.raises(SetupError, match=r"room\.boxes\.json"):
        start_run(make_config(tmp_path, tmp_path / "questions.jsonl"))
    assert not list(tmp_path.glob("runs/*"))
