import json
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import test_data
from factories.benchmarks import FREQUENCY

from render_agent.dialogue.question import Question
from render_agent.engines.scripted.blind_policies import RandomPolicy
from render_agent.score.chance import (
    Fit,
    baseline_notes,
    chance_levels,
    format_answer,
    frequency_fit,
    frequent_answers,
    most_frequent_answer,
    published_answers,
    random_answers,
    random_score,
)
from render_agent.score.means import AnswerScore, tally_scores
from render_agent.score.questions import score_answer
from render_agent.tasks.row_files import load_questions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def vsibench():
    return load_questions(test_data("vsibench", "test.jsonl"), "vsibench")


def test_most_frequent_answers_reproduce_the_published_baseline(vsibench):
    answers = frequent_answers(vsibench)
    assert answers.keys() == {question.id for question in vsibench}
    means = tally_scores(
        AnswerScore(q.type, q.dataset, q.scene, 100 * score_answer(q, answers[q.id]))
        for q in vsibench
    ).means
    for name, score in FREQUENCY.items():
        assert means[name] == pytest.approx(score, abs=0.5), name
    assert str(Fit.SAME_QUESTIONS) in baseline_notes(vsibench)["frequency"]


def test_part_of_the_benchmark_is_not_fitted_on_itself(vsibench):
    assert frequency_fit(vsibench[1:]) is Fit.OTHER_SCENES
    assert frequency_fit([q for q in vsibench if not q.pruned]) is Fit.OTHER_SCENES
    assert frequency_fit([q for q in vsibench if q.scene == vsibench[0].scene]) is Fit.PUBLISHED


def test_bundled_answers_are_those_of_the_published_questions():
    script = runpy.run_path(str(ROOT / "render_agent_lab/bench/published_answers.py"))
    table = json.loads((ROOT / "render_agent/score/published_answers.json").read_text())
    assert table == script["summarise"](test_data("vsibench", "test.jsonl"))


def make_selection(scenes, *truths):
    """Return four questions per scene, with numbers and letters as ground truths in turn."""
    options = ("A. w", "B. x", "C. y", "D. z")
    return [
        make_question(f"{scene}-{n}", truths[n % 2][scene % 3], *kind, scene=scene)
        for scene in range(scenes)
        for n, kind in enumerate(
            [("object_counting", "number"), ("route_planning", "letter", options)] * 2
        )
    ]


@pytest.mark.parametrize("scenes", [1, 5, 6, 9])
def test_no_answer_depends_on_the_ground_truth_of_its_own_scene(scenes):
    """With fewer than six scenes, it depends on no ground truth of the selection."""
    questions = make_selection(scenes, ("7", "8", "9"), ("C", "C", "C"))
    answers = frequent_answers(questions)
    fit = Fit.OTHER_SCENES if scenes >= 6 else Fit.PUBLISHED
    assert frequency_fit(questions) is fit
    for scene in range(scenes):
        changed = [
            replace(q, ground_truth={"number": "40", "letter": "D"}[q.answer_form])
            if q.scene == str(scene) or fit is Fit.PUBLISHED
            else q
            for q in questions
        ]
        own = [q.id for q in questions if q.scene == str(scene)]
        again = frequent_answers(changed)
        assert [again[name] for name in own] == [answers[name] for name in own]
    assert set(answers.values()) == ({"8", "C"} if fit is Fit.OTHER_SCENES else {"2", "A"})


def test_balanced_answers_are_at_chance():
    """The most frequent letter of the other scenes is the rarest one of the scene that is left out."""
    options = ("A. w", "B. x", "C. y", "D. z")
    questions = [
        make_question(n, letter, "route_planning", "letter", options, n // 2)
        for n, letter in enumerate("ABCD" * 10)
    ]
    levels = chance_levels(questions)
    assert levels["frequency"]["route_planning"] == levels["random"]["route_planning"] == 25


def test_missing_scores_do_not_change_the_fit(vsibench):
    """The baseline is fitted on the selection, of which only a part may be scored."""
    part = vsibench[::7]
    answers = frequent_answers(vsibench)
    assert frequent_answers(part, vsibench) == {q.id: answers[q.id] for q in part}


def test_random_answers_ignore_the_ground_truth_and_have_the_shown_score(vsibench):
    for question in vsibench[::501]:
        answers = random_answers(question)
        drawn = [RandomPolicy([question], seed).guess(question.id) for seed in range(400)]
        assert set(drawn) == set(answers)
        score = sum(score_answer(question, answer) for answer in drawn) / len(drawn)
        assert score == pytest.approx(random_score(question), abs=0.1)
        hidden = replace(question, ground_truth=None)
        assert [RandomPolicy([hidden], seed).guess(question.id) for seed in range(400)] == drawn


def make_question(
    number, truth, kind="object_counting", answer_form="number", options=(), scene="s"
):
    return Question(str(number), "b", "d", str(scene), kind, "?", answer_form, options, truth)


def test_number_baseline_maximises_score_not_frequency():
    questions = [make_question(n, truth) for n, truth in enumerate(["1", "1", "10", "10.5", "11"])]
    assert most_frequent_answer(questions) == "10.5"


def test_direction_baseline_follows_option_text():
    kind = "object_rel_direction_easy"
    questions = [
        make_question(0, "A", kind, "letter", ("A. left", "B. right")),
        make_question(1, "B", kind, "letter", ("A. right", "B. left")),
        make_question(2, "A", kind, "letter", ("A. right", "B. left")),
    ]
    answer = most_frequent_answer(questions)
    assert [format_answer(question, answer) for question in questions] == ["A", "B", "B"]


def test_questions_without_ground_truth_get_an_answer_of_their_form():
    questions = [
        make_question(0, None),
        make_question(1, None, "x", "letter", ("A. left", "B. right")),
        make_question(2, None, "y", "text"),
    ]
    assert frequent_answers(questions) == {"0": "2", "1": "A", "2": "unknown"}
    assert frequent_answers([]) == {}
    assert chance_levels(questions)["random"]["macro"] is None


def test_published_answers_fit_the_form_of_the_question():
    """A type of VSI-Bench may be asked in another form, and ReVSI splits types."""
    asked = make_question(0, "B", "object_counting", "letter", ("A. 2", "B. 3"))
    single = make_question(1, "9", "object_counting_single")
    assert frequent_answers([asked, single]) == {"0": "A", "1": "2"}
    assert random_answers(asked) == ["A", "B"]
    assert random_answers(single) == list(published_answers()["object_counting"].quantiles)


def test_ties_do_not_depend_on_question_order():
    questions = [
        make_question(n, truth, "route_planning", "letter", ("A. x", "B. y"))
        for n, truth in enumerate("ABBA")
    ]
    assert most_frequent_answer(questions) == most_frequent_answer(questions[::-1]) == "A"
