import pytest
from conftest import test_data
from factories.benchmarks import FREQUENCY

from render_agent.dialogue.question import Question
from render_agent.score.chance import frequent_answers
from render_agent.score.means import AnswerScore, tally_scores
from render_agent.score.questions import score_answer
from render_agent.tasks.question_files import load_questions


def test_most_frequent_answers_reproduce_the_published_baseline():
    questions = load_questions(test_data("vsibench", "test.jsonl"), "vsibench")
    answers = frequent_answers(questions)
    assert answers.keys() == {question.id for question in questions}
    means = tally_scores(
        AnswerScore(q.type, q.dataset, q.scene, 100 * score_answer(q, answers[q.id]))
        for q in questions
    ).means
    for name, score in FREQUENCY.items():
        assert means[name] == pytest.approx(score, abs=0.5), name


def make_question(number, truth, kind="object_counting", answer_form="number", options=()):
    return Question(str(number), "b", "d", "s", kind, "?", answer_form, options, truth)


def test_number_baseline_maximises_score_not_frequency():
    questions = [make_question(n, truth) for n, truth in enumerate(["1", "1", "10", "10.5", "11"])]
    assert set(frequent_answers(questions).values()) == {"10.5"}


def test_direction_baseline_follows_option_text():
    kind = "object_rel_direction_easy"
    questions = [
        make_question(0, "A", kind, "letter", ("A. left", "B. right")),
        make_question(1, "B", kind, "letter", ("A. right", "B. left")),
        make_question(2, "A", kind, "letter", ("A. right", "B. left")),
    ]
    assert frequent_answers(questions) == {"0": "A", "1": "B", "2": "B"}


def test_questions_without_ground_truth_get_an_answer_of_their_form():
    questions = [
        make_question(0, None),
        make_question(1, None, "x", "letter", ("A. left", "B. right")),
        make_question(2, None, "y", "text"),
    ]
    assert frequent_answers(questions) == {"0": "2", "1": "A", "2": "unknown"}
    assert frequent_answers([]) == {}


def test_ties_do_not_depend_on_question_order():
    questions = [
        make_question(n, truth, "route_planning", "letter", ("A. x", "B. y"))
        for n, truth in enumerate("ABBA")
    ]
    assert frequent_answers(questions) == frequent_answers(questions[::-1])
