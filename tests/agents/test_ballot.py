"""The vote on an answer: what wins."""

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
        (["2", "3"], "2", 0.7),  # half right about 3
        (["0", "0", "3"], "0", 2 / 3),
        (["2.1", "2.3", "2.35"], "2.3", 2.9 / 3),
        (["120", "130", "150", "300"], "130", 2.7 / 4),
        (["9", "1", "4"], "4", 1 / 3),  # as good as the others, and in the middle
    ],
)
def test_the_number_wins_that_scores_best_against_all_votes(votes, winner, expected):
    told = ballot(question(), [None, *votes])
    assert told.winner == winner
    assert told.expected == pytest.approx(expected)
    assert told.votes == (None, *votes)
    assert told.agreement == votes.count(winner) / len(votes)


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
