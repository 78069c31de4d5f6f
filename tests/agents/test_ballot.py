"""The winner of a vote on the answer."""

from pathlib import Path

import pytest

from render_agent.agents.vote import ballot
from render_agent.dialogue.question import Question


def question(wanted="number", kind="object_abs_distance"):
    options = ("A. left", "B. right", "C. back") if wanted == "letter" else ()
    return Question("1", "made", "made", "room", kind, "?", wanted, options, None, Path("room.ply"))


@pytest.mark.parametrize(
    ("votes", "winner", "expected"),
    [
        (["3"], "3", 1.0),
        (["3", "3", "4", "9"], "3", 2.6 / 4),
        (["2", "3"], "2", 0.7),
        (["0", "0", "3"], "0", 2 / 3),
        (["2.1", "2.3", "2.35"], "2.3", 2.9 / 3),
        (["120", "130", "150", "300"], "130", 2.7 / 4),
        (["9", "1", "4"], "4", 1 / 3),  # tie: the median wins
    ],
)
def test_number_with_the_best_mean_score_wins(votes, winner, expected):
    result = ballot(question(), [None, *votes])
    assert result.winner == winner
    assert result.expected == pytest.approx(expected)
    assert result.votes == (None, *votes)
    assert result.agreement == votes.count(winner) / len(votes)


@pytest.mark.parametrize(
    ("votes", "winner", "agreement"),
    [
        (["A", "B", "B"], "B", 2 / 3),
        (["C", "A", "A", "C", "B"], "C", 0.4),
        ([None, "B", "A", None], "B", 0.5),
    ],
)
def test_most_frequent_letter_wins_and_ties_go_to_the_first(votes, winner, agreement):
    result = ballot(question("letter", "object_rel_distance"), votes)
    assert (result.winner, result.agreement, result.spread) == (winner, agreement, None)
    assert result.expected == agreement


def test_texts_are_compared_case_insensitively():
    result = ballot(question("text", "mine"), ["left", "Right", "right"])
    assert result.winner == "Right"
    assert result.agreement == result.expected == pytest.approx(2 / 3)


def test_ballot_without_votes_has_no_winner():
    assert ballot(question(), []) is None
    assert ballot(question(), [None, None]) is None
