"""Counterparts of questions: their edits, their ground truth, and the reasons for missing ones."""

from collections import Counter

import numpy as np
import pytest
from factories.changes import changeable_room
from factories.runs import make_config

from render_agent.errors import QuestionsError, UsageError
from render_agent.parts.counterfactual.counterparts import left_out
from render_agent.runs.build import build
from render_agent.scans.boxes import boxes_overlap
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.question_types import true_answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("changes")
    changeable_room(folder)
    return folder


def selected_questions(folder, *changes, **options):
    return build(make_config(folder, folder / "questions.jsonl", change=changes, **options)).questions()  # fmt: skip


CHANGES = (
    "remove remove:lamp remove:piano add move move:other move:clock swap order names"
).split()


@pytest.fixture(scope="module")
def all_questions(folder):
    """All questions about the room, with their counterparts for every change."""
    return selected_questions(folder, *CHANGES)


def changed_by(all_questions, *changes):
    return [q for q in all_questions if q.change and q.change.kind in changes]


def truths_of(all_questions, change):
    """Return original question id -> (ground truth of its counterpart, whether the answer must change)."""
    return {
        q.change.original_id: (q.ground_truth, q.change.changes_answer)
        for q in changed_by(all_questions, change)
    }


@pytest.mark.parametrize(
    ("change", "truths"),
    [
        ("remove", {"count": ("1", True), "size": ("120", False), "far": ("3.0", False), "near": ("B", False), "side": ("A", False), "area": ("20.0", False)}),
        ("remove:lamp", {"count": ("2", False), "size": ("120", False), "area": ("20.0", False)}),
        ("add", {"count": ("3", True), "size": ("120", False), "far": ("3.0", False), "near": ("B", False), "side": ("A", False), "area": ("20.0", False)}),
        ("names", {"far": ("3.0", False), "near": ("B", False)}),
    ],
)  # fmt: skip
def test_ground_truth_follows_from_the_change(all_questions, change, truths):
    assert truths_of(all_questions, change) == truths


def test_answer_changes_only_if_named_objects_move(all_questions):
    moved, moved_others = truths_of(all_questions, "move"), truths_of(all_questions, "move:other")
    assert {name for name, (_, must) in moved.items() if must} == {"far", "near", "side"}
    assert moved_others.keys() == moved.keys()
    assert not any(must for _, must in moved_others.values())


def test_ground_truth_matches_the_boxes_of_the_edited_room(all_questions):
    questions = [q for q in all_questions if q.change and q.type != "route_planning"]
    facts = load_facts(questions)
    assert {q.change.kind for q in questions} == set(CHANGES) - {"remove:piano", "move:clock"}
    for question in questions:
        before, after = question.change.original_truth, question.ground_truth
        assert true_answer(question, facts[question.scene]) == after
        if not question.change.changes_answer:
            assert float(before) == pytest.approx(float(question.change.to_original(after)), rel=0.05) if question.answer_form == "number" else before == question.change.to_original(after)  # fmt: skip


def test_moved_objects_overlap_nothing(all_questions):
    questions = changed_by(all_questions, "move", "move:other", "add", "swap")
    facts = load_facts(questions)
    for question in questions:
        boxes = [box for group in facts[question.scene].boxes.values() for box in group]
        assert not any(boxes_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
        corners = np.concatenate([box.bounds[:, :2] for box in boxes])
        assert ((corners > -1e-3) & (corners < (5.001, 4.001))).all()
        hanging = facts[question.scene].boxes["clock"]
        floors = {round(float(b.bounds[0, 2]), 3) for b in boxes if all(b is not h for h in hanging)}  # fmt: skip
        assert floors == {0.0}


def test_order_rotates_all_options(all_questions):
    pairs = {q.id: q for q in all_questions}
    before, after = pairs["near"], pairs["near-order"]
    texts = [option[3:] for option in before.options], [option[3:] for option in after.options]
    assert sorted(texts[0]) == sorted(texts[1])
    assert all(a != b for a, b in zip(*texts, strict=True))
    assert after.change.to_original(after.ground_truth) == before.ground_truth != after.ground_truth
    assert after.scene == before.scene
    assert after.change.to_original(None) is None


def test_questions_without_counterpart_keep_the_reason(all_questions):
    assert len([q for q in all_questions if q.change is None]) == 7
    reasons = left_out(all_questions)
    assert all(reason for _, reason in reasons)
    num_missing = Counter()
    for (change, _), number in reasons.items():
        num_missing[change] += number
    expected = {"remove": 1, "names": 5, "move:clock": 7, "remove:piano": 7}
    assert {change: num_missing[change] for change in expected} == expected
    for change in CHANGES:
        assert num_missing[change] + len(changed_by(all_questions, change)) == 7


def test_changes_depend_on_the_seed_only(folder):
    first, second, other_seed = (
        selected_questions(folder, "move:other", "order", seed=seed) for seed in (3, 3, 8)
    )
    assert first == second != other_seed


def test_run_without_any_pair_is_rejected(folder):
    with pytest.raises(QuestionsError, match="piano"):
        selected_questions(folder, "remove:piano")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"change": ("scale:2",)}, "--change"),
        ({"change": ("swap:chair",)}, "--change"),
        ({"change": ("order:2",)}, "--change"),
        ({"change": ("move", "move")}, "named twice"),
    ],
)
def test_invalid_changes_are_rejected(folder, options, message):
    with pytest.raises(UsageError, match=message):
        build(make_config(folder, folder / "questions.jsonl", **options))
