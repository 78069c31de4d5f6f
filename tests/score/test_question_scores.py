"""The metric of a question, the score of an answer, and row labels."""

from dataclasses import replace

import pytest

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.score.questions import is_scorable, metric_of, score_answer
from render_agent.score.summary import MEAN_OF_TASKS, VSI_BENCH_SCORE, row_names
from render_agent.tasks.question_types import BUILT_IN, metric_name

COUNT = Question(
    "1", "rooms", "rooms", "a", "object_counting", "How many?", "number", ground_truth="4"
)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "count-accuracy"),
        ({"metric": "accuracy"}, "accuracy"),
        ({"type": "room_size_estimation"}, "mean-relative-accuracy"),
        ({"type": "object_rel_direction_hard", "answer_form": "letter"}, "direction-accuracy"),
        ({"answer_form": "text"}, "first-word"),
        ({"type": "mine", "answer_form": "letter"}, "accuracy"),
        ({"type": "mine"}, "mean-relative-accuracy"),
    ],
)
def test_metric_of_question(changes, name):
    assert metric_name(replace(COUNT, **changes)) == name


def test_metric_form_matches_answer_form():
    for kind, record in BUILT_IN.items():
        assert (
            metric_of(replace(COUNT, type=kind, answer_form=record.answer_form)).form
            == record.answer_form
        )


def test_parser_applies_unless_question_names_a_metric():
    assert [score_answer(COUNT, answer) for answer in ("4", "3", "four", None)] == [1, 0.6, 0, 0]
    assert score_answer(COUNT, "there are 4", "lmms-eval") == 1
    question_with_metric = replace(
        COUNT, metric="exact-match", answer_form="text", ground_truth="A Chair", answers=("sofa",)
    )
    for parser in ("official", "lmms-eval"):
        assert [score_answer(question_with_metric, answer, parser) for answer in ("chair", "sofa", "bed")] == [1, 1, 0]  # fmt: skip


@pytest.mark.parametrize("changes", [{"ground_truth": None}, {"metric": "llm-match"}])
def test_unscorable_questions_raise(changes):
    assert is_scorable(COUNT)
    question = replace(COUNT, **changes)
    assert not is_scorable(question)
    with pytest.raises(ValueError, match="question 1"):
        score_answer(question, "4")


def test_unknown_metric_raises_setup_error():
    with pytest.raises(SetupError, match="off-by-two"):
        metric_of(replace(COUNT, metric="off-by-two"))


def test_score_is_named_after_vsibench_only_for_its_questions():
    means = ["official_raw", "official", "without_order", "micro", "mean_of_types"]
    vsibench = row_names([*means, "object_rel_direction_hard"])
    assert vsibench == {
        "official_raw": VSI_BENCH_SCORE,
        "object_rel_direction_hard": "relative direction, hard",
    }
    names = row_names([*means, "route_planning", "colour_of_walls"])
    assert list(names.values()) == [MEAN_OF_TASKS, "route plan", "colour of walls"]
