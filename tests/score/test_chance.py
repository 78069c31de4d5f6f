import pytest
from conftest import test_data
from factories.benchmarks import FREQUENCY

from render_agent.dialogue.question import Question
from render_agent.score.chance import frequent_answers
from render_agent.score.means import Scored, tally
from render_agent.score.questions import score_answer
from render_agent.tasks.question_files import load_questions


def test_the_commonest_answers_score_what_the_paper_says():
    questions = load_questions(test_data("vsibench", "test.jsonl"), "vsibench")
    answers = frequent_answers(questions)
    assert answers.keys() == {question.id for question in questions}
    means = tally(
        Scored(q.type, q.dataset, q.scene, 100 * score_answer(q, answers[q.id])) for q in questions
    ).means
    for name, score in FREQUENCY.items():
        assert means[name] == pytest.approx(score, abs=0.5), name


def made(number, truth, kind="object_counting", wanted="number", options=()):
    return Question(str(number), "b", "d", "s", kind, "?", wanted, options, truth)


def test_the_constant_is_the_best_for_its_truths_not_the_commonest():
    questions = [made(n, truth) for n, truth in enumerate(["1", "1", "10", "10.5", "11"])]
    assert set(frequent_answers(questions).values()) == {"10.5"}


def test_directions_follow_the_text_of_the_option():
    kind = "object_rel_direction_easy"
    questions = [
        made(0, "A", kind, "letter", ("A. left", "B. right")),
        made(1, "B", kind, "letter", ("A. right", "B. left")),
        made(2, "A", kind, "letter", ("A. right", "B. left")),
    ]
    assert frequent_answers(questions) == {"0": "A", "1": "B", "2": "B"}


def test_questions_without_a_truth_get_an_answer_of_their_form():
    questions = [
        made(0, None),
        made(1, None, "x", "letter", ("A. left", "B. right")),
        made(2, None, "y", "text"),
    ]
    assert frequent_answers(questions) == {"0": "2", "1": "A", "2": "unknown"}
    assert frequent_answers([]) == {}


def test_ties_do_not_depend_on_the_order():
    questions = [
        made(n, truth, "route_planning", "letter", ("A. x", "B. y"))
        for n, truth in enumerate("ABBA")
    ]
    assert frequent_answers(questions) == frequent_answers(questions[::-1])
