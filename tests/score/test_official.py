import json
import math

import numpy as np
import pytest
from conftest import test_data
from factories.metrics import VSI_BENCH

from render_agent.score.means import AnswerScore, tally_scores
from render_agent.score.metrics import FirstWord
from render_agent.score.official import first_word, mean_relative_accuracy
from render_agent.tasks.question_types import CHOICE_TYPES, NUMBER_TYPES, TYPES


def score_answer(question_type, prediction, truth):
    return VSI_BENCH[question_type].score(prediction or "", (truth,))


def reference_accuracy(prediction, truth):
    """Mean relative accuracy transcribed from VSI-Bench's definition, in numpy."""
    thresholds = np.linspace(0.5, 0.95, int((0.95 - 0.5) / 0.05 + 2))
    return (abs(prediction - truth) / truth <= 1 - thresholds).mean()


@pytest.mark.parametrize(
    ("prediction", "truth", "score"),
    [(3, 2, 0.1), (75, 100, 0.6), (2, 2, 1), (1, 2, 0.1), (0, 2, 0), (4, 2, 0), (95, 100, 1), (-2, 2, 0),
     (math.inf, 2, 0), (math.nan, 2, 0), (0, 0, 1), (1, 0, 0)],
)  # fmt: skip
def test_mean_relative_accuracy(prediction, truth, score):
    assert mean_relative_accuracy(prediction, truth) == score


def test_random_pairs_agree_with_the_definition():
    random = np.random.default_rng(5)
    truths = random.choice([1, 2, 3, 4, 5, 8, 10, 20, 100, 0.5, 1.8, 16.2, 3.7], 50_000)
    ties = truths * (1 + random.choice([-1, 1], 50_000) * random.integers(0, 12, 50_000) * 0.05)
    free = random.lognormal(1, 1, (2, 50_000)).round(2) + 0.01
    pairs = np.concatenate([np.stack([ties, truths]), free], axis=1)
    thresholds = np.linspace(0.5, 0.95, 10)
    expected = (abs(pairs[0] - pairs[1]) / pairs[1] <= 1 - thresholds[:, None]).mean(axis=0)
    assert np.array_equal([mean_relative_accuracy(p, t) for p, t in pairs.T.tolist()], expected)
    assert reference_accuracy(3, 2) == 0.1
    assert len(set(expected.tolist())) == 11


@pytest.mark.parametrize(
    ("prediction", "word"),
    [("A", "A"), ("A.", "A"), ("A. left", "A"), ("B because", "B"), ("B\nbecause", "B\nbecause"),
     ("2.0", "2.0"), ("2.", "2"), ("twenty-one", "twenty-one"), ("", ""), (" A", ""), ("A...", "A"), ("A .", "A")],
)  # fmt: skip
def test_the_official_parser(prediction, word):
    assert first_word(prediction) == word


@pytest.mark.parametrize(
    ("prediction", "truth", "score"),
    [("A", "A", 1), ("a", "A", 1), ("A.", "A", 1), ("A. left", "A", 1), ("B", "A", 0), ("(A)", "A", 0),
     ("B\nbecause", "B", 0), ("", "A", 0), (None, "A", 0), ("AB", "A", 0)],
)  # fmt: skip
@pytest.mark.parametrize("question_type", CHOICE_TYPES)
def test_letters_are_scored_by_the_first_word(question_type, prediction, truth, score):
    assert score_answer(question_type, prediction, truth) == score


@pytest.mark.parametrize(
    ("prediction", "truth", "score"),
    [("2", "2", 1), ("2.0", "2", 1), ("2", "2.0", 1), ("3", "2", 0.1), ("75", "100", 0.6), ("2 chairs", "2", 1),
     ("twenty-one", "21", 0), ("", "2", 0), (None, "2", 0), ("about 2", "2", 0), ("2m", "2", 0), ("nan", "2", 0)],
)  # fmt: skip
@pytest.mark.parametrize("question_type", NUMBER_TYPES)
def test_numbers_are_scored_by_mean_relative_accuracy(question_type, prediction, truth, score):
    assert score_answer(question_type, prediction, truth) == score


def test_custom_types_are_compared_according_to_ground_truth():
    score = FirstWord().score
    assert score("3", ("2",)) == 0.1
    assert score("Red.", ("red",)) == 1
    assert score("red", ("2",)) == 0


def test_ground_truth_scores_1_on_all_vsibench_questions():
    rows = [
        json.loads(line)
        for line in test_data("vsibench", "test.jsonl").read_text("utf-8").splitlines()
    ]
    scored = [
        AnswerScore(
            row["question_type"],
            row["dataset"],
            row["scene_name"],
            score_answer(row["question_type"], row["ground_truth"], row["ground_truth"]),
        )
        for row in rows
    ]
    assert set(tally_scores(scored).means.values()) == {1.0}
    assert tally_scores(scored).types == TYPES
