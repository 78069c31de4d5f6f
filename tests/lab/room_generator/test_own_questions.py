"""Questions about own rooms: their answers follow from the boxes, whatever other types are asked."""

import json
from itertools import combinations

import numpy as np
import pytest
from factories.homes import write_own_scans
from factories.scans import block, mesh_ply, room
from scipy.optimize import minimize

from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.scans.formats import load
from render_agent.score.questions import score_answer
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.question_types import subjects, true_answer


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A folder with two scans that have nothing but boxes beside them."""
    folder = tmp_path_factory.mktemp("own")
    write_own_scans(folder, ("room01", "room05"))
    return folder


def make(type_in, folder, name, *options):
    scans = sorted(folder.glob("*.ply"))
    code, _, err = type_in("make-questions", *scans, "--to", folder / name, *options, folder=folder)
    assert code == 0, err
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()], err


def gap(first, second):
    """Return the distance between two boxes by bounded minimisation over a point in each."""

    def point(box, at):
        return box.centre + (at * box.size) @ box.axes

    def square(at):
        return float(((point(first, at[:3]) - point(second, at[3:])) ** 2).sum())

    found = minimize(square, np.zeros(6), bounds=[(-0.5, 0.5)] * 6, method="L-BFGS-B", tol=1e-14)
    return float(np.sqrt(found.fun))


def test_answers_follow_from_the_boxes(house, type_in):
    rows, printed = make(type_in, house, "questions.jsonl", "--per-type", "9")
    assert len(rows) >= 60
    assert "room size: 0" in printed
    config = RunConfig(batch=True, benchmark=str(house / "questions.jsonl"), engine="scripted")
    questions = build(config).questions()
    facts = load_facts(questions, config)
    letters = []
    for question in questions:
        if question.type == "route_planning":
            continue  # walked in test_room_questions.py
        known = facts[question.scene]
        assert score_answer(question, true_answer(question, known)) == 1, question.text
        if question.type == "object_abs_distance":
            (first,), (second,) = (known.boxes[name] for name in subjects(question))
            assert float(question.ground_truth) == pytest.approx(gap(first, second), abs=0.051)
        if question.options:
            letters.append(question.ground_truth)
    assert max(map(letters.count, "AB")) - min(map(letters.count, "AB")) <= len(letters) / 4


def test_types_do_not_change_each_other(house, type_in):
    everything, _ = make(type_in, house, "all.jsonl", "--per-type", "3")
    for types in combinations(
        ("object_counting", "relative distance", "object_size_estimation"), 2
    ):
        options = ("--per-type", "3", "--types", ",".join(types))
        some, _ = make(type_in, house, "some.jsonl", *options)
        assert some
        assert all(row in everything for row in some)
        other, _ = make(type_in, house, "other.jsonl", *options, "--seed", "2")
        assert other != some


def test_each_scan_is_read_once(tmp_path, type_in, monkeypatch):
    tables = ((1, 1, 0), (2, 2, 0.8)), ((3, 1, 0), (4, 2, 0.8))
    (tmp_path / "flat.ply").write_bytes(mesh_ply(*room(*(block(*table) for table in tables))))
    boxes = [
        {"label": "table", "center": np.mean(t, 0).tolist(), "size": [1, 1, 0.8]} for t in tables
    ]
    (tmp_path / "flat.boxes.json").write_text(json.dumps(boxes))
    reads, read = [], load._read
    monkeypatch.setattr(
        load, "_read", lambda path, *frame: reads.append(path) or read(path, *frame)
    )
    make(type_in, tmp_path, "questions.jsonl")
    assert len(reads) == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("room01.ply", "--to", "elsewhere/q.jsonl"), "elsewhere"),
        (("room01.ply", "--to", "q.jsonl", "--types", "colour"), "colour"),
        (("bare.ply", "--to", "q.jsonl"), "bare.boxes.json"),
        (("room01.ply", "room05.ply", "--to", "q.jsonl", "--boxes", "x.json"), "--boxes"),
    ],
)
def test_mistakes_are_named(house, type_in, arguments, word):
    bare = house / "bare.ply"
    if not bare.exists() and "bare.ply" in arguments:
        bare.symlink_to((house / "room01.ply").resolve())
    try:
        code, _, err = type_in("make-questions", *arguments, folder=house)
    finally:
        bare.unlink(missing_ok=True)
    assert code != 0
    assert word in err
