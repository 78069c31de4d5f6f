"""The vote on an answer: what wins, and that no number would have lost less."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from render_agent.agents.ballot import ballot, least_loss, optima
from render_agent.dialogue.answer import canonical
from render_agent.dialogue.state import Question
from render_agent.score.official import THRESHOLDS, mean_relative_accuracy, score_answer


def question(wanted="number", kind="object_abs_distance"):
    options = ("A. left", "B. right", "C. back") if wanted == "letter" else ()
    return Question("1", "made", "made", "room", kind, "?", wanted, options, None, Path("room.ply"))


def tenths(value, numbers):
    """The sum of the scores in tenths: whole numbers, so that equal sums are equal."""
    return sum(round(10 * mean_relative_accuracy(value, number)) for number in numbers)


def breakpoints(numbers):
    """Every place where a score may change, with the floats around it."""
    for number in numbers:
        yield number
        for threshold in THRESHOLDS:
            for side in (-1, 1):
                value = number + side * (1 - threshold) * abs(number)
                for _ in range(3):
                    value = math.nextafter(value, -math.inf)
                for _ in range(7):
                    if math.isfinite(value):
                        yield value
                    value = math.nextafter(value, math.inf)


COUNTS = st.integers(0, 12).map(float)
METRES = st.integers(-20, 100).map(lambda tenth: tenth / 10)
ANY = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.lists(COUNTS, min_size=1, max_size=7) | st.lists(METRES, min_size=1, max_size=7)


@given(NUMBERS)
@example([2.0, 3.0])
@example([0.0, 0.0, 3.0])
@example([-1.0, 2.0])
def test_no_number_loses_less_than_the_winner(numbers):
    best = tenths(least_loss(numbers), numbers)
    low, high = min(numbers) - 1, max(numbers) * 1.6 + 1
    tried = [*np.linspace(low, high, 400).tolist(), *breakpoints(numbers)]
    assert best == max(tenths(value, numbers) for value in tried)


@given(NUMBERS)
@example([2.0, 3.0])
@example([0.3])
@example([0.3, 7.0])
@example([-3.0, 2.4])
def test_of_counts_no_whole_number_loses_less_than_the_winner(numbers):
    winner = least_loss(numbers, whole=True)
    tried = range(math.floor(min(numbers)) - 6, math.ceil(max(numbers) * 1.6) + 6)
    scores = {float(count): tenths(count, numbers) for count in tried}
    if not max(scores.values()):  # no whole number is near to any vote
        assert winner == least_loss(numbers)
        return
    best = [count for count, score in scores.items() if score == max(scores.values())]
    middle = sorted(numbers)[(len(numbers) - 1) // 2]
    assert winner == min(best, key=lambda count: (abs(count - middle), count))


@given(st.lists(ANY, min_size=1, max_size=3))
@example([1.7e308, 1.2e308, 2.0])
def test_a_count_of_any_size_is_whole_where_a_whole_number_scores(numbers):
    winner = least_loss(numbers, whole=True)
    assert winner.is_integer() or not any(
        tenths(value, numbers)
        for number in numbers
        for value in (math.floor(number), math.ceil(number))
    )


@given(st.lists(ANY, min_size=1, max_size=4))
@example([5e-324, 1e-320])
@example([1.7e308, 1.2e308, 2.0])
def test_the_optima_are_exact_to_the_last_digit_at_any_size(numbers):
    best = tenths(least_loss(numbers), numbers)
    assert best >= max(tenths(value, numbers) for value in breakpoints(numbers))
    for first, last in optima(numbers):
        inside = first + (last - first) / 2 if abs(last - first) < math.inf else first
        assert {tenths(value, numbers) for value in (first, inside, last)} == {best}
        for outside in (math.nextafter(first, -math.inf), math.nextafter(last, math.inf)):
            beyond = math.isfinite(outside) and tenths(outside, numbers)
            begins_there = any(outside in span for span in optima(numbers))
            assert beyond < best or begins_there


@given(NUMBERS, st.randoms(use_true_random=False))
def test_the_order_of_numbers_does_not_matter(numbers, chance):
    mixed = chance.sample(numbers, len(numbers))
    assert least_loss(mixed) == least_loss(numbers)
    assert least_loss(mixed, whole=True) == least_loss(numbers, whole=True)


@given(st.lists(COUNTS | METRES | ANY, min_size=1, max_size=6))
def test_a_ballot_gives_a_number_that_is_read_and_scored_as_it_is(numbers):
    votes = [canonical(repr(number), "number") for number in numbers]
    told = ballot(question(), [None, *votes])
    assert canonical(told.winner, "number") == told.winner
    scores = [score_answer("object_abs_distance", told.winner, vote) for vote in votes]
    assert told.expected == pytest.approx(np.mean(scores), abs=1e-12)
    assert told.votes == (None, *votes)
    assert math.isfinite(told.spread)
    assert told.agreement == votes.count(told.winner) / len(votes)
    assert 10 * len(votes) * told.expected == pytest.approx(
        tenths(float(told.winner), [float(vote) for vote in votes])
    )


@pytest.mark.parametrize(
    ("votes", "winner", "expected"),
    [
        (["3"], "3", 1.0),
        (["3", "3", "4", "9"], "3", 2.6 / 4),
        (["2", "3"], "2.1", 0.75),  # near to 2, and it counts half where 3 is true
        (["0", "0", "3"], "0", 2 / 3),
        (["2.1", "2.3", "2.35"], "2.3", 2.9 / 3),
        (["120", "130", "150", "300"], "130", 2.7 / 4),
        (["4.2", "4.2", "4.2"], "4.2", 1.0),
        (["1e-07", "1e-07"], "1e-07", 1.0),
    ],
)
def test_numbers_that_were_voted_for(votes, winner, expected):
    told = ballot(question(), votes)
    assert told.winner == winner
    assert told.expected == pytest.approx(expected)


@pytest.mark.parametrize(
    ("votes", "winner", "expected"),
    [
        (["2", "3"], "2", 0.7),  # 2.1 would have 0.75, and is no count
        (["3", "3", "4", "9"], "3", 2.6 / 4),
        (["0", "0", "3"], "0", 2 / 3),
        (["1", "8", "10"], "9", 1.7 / 3),  # nobody said it
        (["2.5"], "2", 0.6),
        (["0.3"], "0.3", 1.0),  # no whole number scores
    ],
)
def test_counts_that_were_voted_for(votes, winner, expected):
    told = ballot(question(kind="object_counting"), votes)
    assert told.winner == winner
    assert told.expected == pytest.approx(expected)


def test_a_number_that_nobody_said_is_written_short():
    told = ballot(question(), ["2.13", "2.37", "3.01"])
    numbers = [2.13, 2.37, 3.01]
    assert told.winner not in told.votes
    assert len(told.winner) <= 5
    assert tenths(float(told.winner), numbers) == tenths(least_loss(numbers), numbers)


@pytest.mark.parametrize(
    ("votes", "winner", "agreement"),
    [
        (["A", "B", "B"], "B", 2 / 3),
        (["C", "A", "A", "C", "B"], "C", 0.4),
        ([None, "B", "A", None], "B", 0.5),
    ],
)
def test_of_letters_the_commonest_wins_and_of_several_the_first(votes, winner, agreement):
    told = ballot(question("letter", "object_rel_distance"), votes)
    assert (told.winner, told.agreement, told.spread) == (winner, agreement, None)
    assert told.expected == agreement


def test_texts_are_compared_as_they_are_scored():
    told = ballot(question("text", "mine"), ["left", "Right", "right"])
    assert told.winner == "Right"
    assert told.agreement == told.expected == pytest.approx(2 / 3)


def test_without_votes_there_is_no_winner():
    assert ballot(question(), []) is None
    assert ballot(question(), [None, None]) is None
