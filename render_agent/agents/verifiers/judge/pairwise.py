"""Pairwise comparison of the pictures of one state: the score of each is its share of wins.

Every two are compared in both orders, since judges prefer a place, often the first, whatever stands
there. Where the engine gives probabilities, a comparison's log-odds are the mean over both orders:
a liking for a place that adds to the log-odds cancels exactly. Where replies are written, an order is
won or lost, and a pair whose orders contradict each other is a tie. A picture's value is its win
share, the mean of its wins over the others (Copeland's rule, with shares of a win): unlike a
strength by Bradley and Terry, which orders complete comparisons the same way, it needs no fit, and
stays finite where a picture wins all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import exp
from statistics import fmean

from render_agent.agents.verifiers.judge import prompts
from render_agent.agents.verifiers.judge.model_queries import JudgedPicture, ModelQueries, log_odds
from render_agent.agents.verifiers.judge.reply_parser import read_better
from render_agent.agents.verifiers.judge.rubric import MAX_REASON_CHARACTERS, Rubric
from render_agent.agents.verifiers.judge.score import Fault, Score, Unreadable, score_of
from render_agent.dialogue.state import Tokens
from render_agent.engines.base import Reply, Scores

Outcomes = Mapping[tuple[int, int], float]
"""By ordered pair of pictures the log-odds of the first against the second; plus or minus 1 where a reply names one."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one picture stands: its win share, None where none of its comparisons could be read.

    compared: with how many others. consistent: the share of them in which both orders say the same.
    """

    share: float | None
    compared: int
    consistent: float | None


def orders(count: int) -> list[tuple[int, int]]:
    """Return every ordered pair of so many pictures; the two orders of a pair are both there."""
    return list(permutations(range(count), 2))


def standings(count: int, outcomes: Outcomes, *, named: bool = False) -> list[Standing]:
    """Return the standing of each of so many pictures.

    A pair of which one order is missing is left out, for both: half of it would be the liking for a place.
    named: whether outcomes are what replies name, and no log-odds.
    """
    return [_standing(count, number, outcomes, named=named) for number in range(count)]


def _standing(count: int, number: int, outcomes: Outcomes, *, named: bool) -> Standing:
    both = [
        (outcomes[number, other], outcomes[other, number])
        for other in range(count)
        if (number, other) in outcomes and (other, number) in outcomes
    ]
    if not both:
        return Standing(None, 0, None)
    wins = [
        ((first > 0) + (second < 0)) / 2 if named else probability((first - second) / 2)
        for first, second in both
    ]
    return Standing(fmean(wins), len(both), fmean(first * second < 0 for first, second in both))


def probability(log_odds: float) -> float:
    """Return the probability of log-odds, exact at both ends."""
    if log_odds < 0:
        small = exp(log_odds)
        return small / (1 + small)
    return 1 / (1 + exp(-log_odds))


def score_by_pairs(
    queries: ModelQueries, shown: Sequence[JudgedPicture], rubric: Rubric | None
) -> list[Score]:
    """Return the win share of every picture among those of its state, in their order."""
    states: dict[object, list[int]] = {}
    for number, entry in enumerate(shown):
        states.setdefault(entry.state, []).append(number)
    pairs = [pair for members in states.values() for pair in permutations(members, 2)]
    compared = dict(zip(pairs, _compare(queries, shown, pairs, rubric), strict=True))
    scores: dict[int, Score] = {}
    for members in states.values():
        results = {
            (first, second): compared[members[first], members[second]]
            for first, second in orders(len(members))
        }
        standing = _standing_scores(len(members), results, named=not _gives_odds(queries))
        scores.update(zip(members, standing, strict=True))
    return [scores[number] for number in range(len(shown))]


def _compare(
    queries: ModelQueries,
    shown: Sequence[JudgedPicture],
    pairs: Sequence[tuple[int, int]],
    rubric: Rubric | None,
) -> list[Score]:
    """Return what every ordered pair says, its value as in Outcomes: by probabilities where the engine gives
    them, else written."""
    likely = _gives_odds(queries)
    form = prompts.PAIR_FORMAT if likely else prompts.PAIR_OBJECT_FORMAT
    messages = [
        prompts.about(
            shown[first].prompts,
            shown[first].earlier,
            {"View A:": shown[first].picture, "View B:": shown[second].picture},
            form,
        )
        for first, second in pairs
    ]
    if likely:
        letters = [word for words in prompts.LETTERS for word in words]
        return [score_of(scores, _likelier) for scores in queries.likely(messages, letters)]
    longest = rubric.longest_reason if rubric else MAX_REASON_CHARACTERS
    replies = queries.written(messages, prompts.pair_schema(longest))
    return [score_of(reply, _score_of_reply) for reply in replies]


def _gives_odds(queries: ModelQueries) -> bool:
    return queries.engine.capabilities.score


def _likelier(scores: Scores) -> Score | Unreadable:
    odds = log_odds(scores.log_probabilities, len(prompts.LETTERS[0]))
    if odds is None:
        return Unreadable("the model gives neither A nor B any probability")
    return Score(odds[0])


def _score_of_reply(reply: Reply) -> Score | Unreadable:
    better = read_better(reply)
    return better if isinstance(better, Unreadable) else Score(1.0 - 2 * better)


def _standing_scores(
    count: int, compared: Mapping[tuple[int, int], Score], *, named: bool
) -> list[Score]:
    outcomes = {pair: entry.value for pair, entry in compared.items() if entry.value is not None}
    scores = []
    for number, standing in enumerate(standings(count, outcomes, named=named)):
        own = [entry for pair, entry in compared.items() if number in pair]
        both = Tokens.total(entry.tokens for entry in own)
        tokens = Tokens(both.prompt // 2, both.reply // 2, both.cached // 2)
        seconds = sum(entry.seconds for entry in own) / 2
        if standing.share is None:
            wrong = next((entry for entry in own if entry.fault is not None), None)
            reason = wrong.reason if wrong else "there is no other picture to compare it with"
            fault = wrong.fault if wrong else Fault.ALONE
            scores.append(Score(None, reason, fault, tokens=tokens, seconds=seconds))
        else:
            scores.append(
                Score(standing.share, support=standing.consistent, tokens=tokens, seconds=seconds)
            )
    return scores
