import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from factories import TREE

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError
from render_agent.scans.boxes import OrientedBox, rotation
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts, load_facts, place_facts

BOX = OrientedBox(np.array([3.0, 1.0, 0.5]), np.array([2.0, 1.0, 1.0]), rotation(30).T)
SCENE = Scene(
    "s", np.zeros((1, 3), "f4"), np.zeros((1, 3), "u1"), None, 0, 2, np.zeros((2, 3)), Path("s.ply")
)


def test_boxes_are_shifted_by_the_scene_origin():
    moved = place_facts(
        Facts({"bed": 1}, 9.0, {"bed": [BOX]}), replace(SCENE, origin=(1.0, 2.0, 3.0))
    )
    np.testing.assert_allclose(moved.boxes["bed"][0].corners, BOX.corners - (1, 2, 3))
    assert (moved.counts, moved.room_size) == ({"bed": 1}, 9.0)


def test_mirrored_box_has_mirrored_corners_and_right_handed_axes():
    (mirrored,) = place_facts(
        Facts({}, 9.0, {"bed": [BOX]}), replace(SCENE, mirrored_at=2.0)
    ).boxes["bed"]
    expected = BOX.corners * (-1, 1, 1) + (4, 0, 0)
    assert {tuple(np.round(c, 9)) for c in mirrored.corners} == {
        tuple(np.round(c, 9)) for c in expected
    }
    assert np.linalg.det(mirrored.axes) > 0


def test_reports_ignore_damaged_files_next_to_scans(tmp_path, caplog):
    """Regression test: one damaged JSON file ended the whole report."""
    questions = []
    for name in ("room00", "room01"):
        scan = tmp_path / f"{name}.ply"
        scan.touch()
        shutil.copy(TREE / "scenes" / f"{name}.json", tmp_path)
        questions.append(
            Question(name, "b", "d", name, "object_counting", "How many?", "number", scan=scan)
        )
    expected = load_facts(questions)
    damaged = tmp_path / "room00.json"
    damaged.write_bytes(damaged.read_bytes()[:3000])
    assert load_facts(questions, skip=()).keys() == expected.keys() - {"room00"}
    assert str(damaged) in caplog.text
    with pytest.raises(QuestionsError, match=r"room00\.json"):  # a run that needs it
        load_facts(questions)
