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
from render_agent.agents.verifiers.judge.reply_parser import Unreadable, read_better
from render_agent.agents.verifiers.judge.rubric import MAX_REASON_CHARACTERS, Rubric
from render_agent.agents.verifiers.judge.score import Fault, Score
from render_agent.dialogue.state import Tokens
from render_agent.engines.base import Reply, Scores


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one order of a comparison says: above 0 that the first picture is better.

    log_odds: of the first against the second; plus or minus 1 where a reply only names one.
    """

    log_odds: float
    named: bool = False


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


def standings(count: int, outcomes: Mapping[tuple[int, int], Outcome]) -> list[Standing]:
    """Return how each of so many pictures stands.

    outcomes: by ordered pair. A pair of which one order is missing is left out, for both: half of it
    would be the liking for a place.
    """
    return [_standing(count, number, outcomes) for number in range(count)]


def _standing(count: int, number: int, outcomes: Mapping[tuple[int, int], Outcome]) -> Standing:
    both = [
        (outcomes[number, other], outcomes[other, number])
        for other in range(count)
        if (number, other) in outcomes and (other, number) in outcomes
    ]
    if not both:
        return Standing(None, 0, None)
    return Standing(
        fmean(_win(first, second) for first, second in both),
        len(both),
        fmean(first.log_odds * second.log_odds < 0 for first, second in both),
    )


def _win(first: Outcome, second: Outcome) -> float:
    """Return the share of a win, 0 to 1; first: the order in which the picture comes first."""
    if first.named or second.named:
        return ((first.log_odds > 0) + (second.log_odds < 0)) / 2
    return probability((first.log_odds - second.log_odds) / 2)


def probability(log_odds: float) -> float:
    """Return the probability of log-odds, exact at both ends."""
    if log_odds < 0:
        small = exp(log_odds)
        return small / (1 + small)
    return 1 / (1 + exp(-log_odds))


@dataclass(frozen=True, slots=True)
class OrderedResult:
    """One order of a comparison: its outcome, or why there is none, and what it took."""

    outcome: Outcome | None
    reason: str
    fault: Fault | None
    tokens: Tokens
    seconds: float


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
        scores.update(zip(members, _standing_scores(len(members), results), strict=True))
    return [scores[number] for number in range(len(shown))]


def _compare(
    queries: ModelQueries,
    shown: Sequence[JudgedPicture],
    pairs: Sequence[tuple[int, int]],
    rubric: Rubric | None,
) -> list[OrderedResult]:
    """Return what every ordered pair says: by probabilities where the engine gives them, else written."""
    likely = queries.engine.capabilities.score
    form = prompts.PAIR_FORMAT if likely else prompts.PAIR_OBJECT_FORMAT
    messages = [
        prompts.about_two(
            shown[first].prompts,
            shown[first].earlier,
            (shown[first].picture, shown[second].picture),
            form,
        )
        for first, second in pairs
    ]
    if likely:
        letters = [word for words in prompts.LETTERS for word in words]
        return [_likelier(scores) for scores in queries.likely(messages, letters)]
    longest = rubric.longest_reason if rubric else MAX_REASON_CHARACTERS
    return [_named(reply) for reply in queries.written(messages, prompts.pair_schema(longest))]


def _likelier(scores: Scores) -> OrderedResult:
    used = scores.tokens, scores.seconds / scores.batch_size
    if scores.error is not None:
        return OrderedResult(None, scores.error, Fault.ENGINE, *used)
    odds = log_odds(scores.log_probabilities, len(prompts.LETTERS[0]))
    if odds is None:
        return OrderedResult(
            None, "the model gives neither A nor B any probability", Fault.REPLY, *used
        )
    return OrderedResult(Outcome(odds[0]), "", None, *used)


def _named(reply: Reply) -> OrderedResult:
    used = reply.tokens, reply.seconds / reply.batch_size
    if reply.error is not None:
        return OrderedResult(None, reply.error, Fault.ENGINE, *used)
    better = read_better(reply)
    if isinstance(better, Unreadable):
        return OrderedResult(None, better.reason, Fault.REPLY, *used)
    return OrderedResult(Outcome(1.0 - 2 * better, named=True), "", None, *used)


def _standing_scores(count: int, compared: Mapping[tuple[int, int], OrderedResult]) -> list[Score]:
    """Return the scores of the pictures of one state."""
    outcomes = {
        pair: entry.outcome for pair, entry in compared.items() if entry.outcome is not None
    }
    scores = []
    for number, standing in enumerate(standings(count, outcomes)):
        own = [entry for pair, entry in compared.items() if number in pair]
        tokens = Tokens(
            prompt=sum(entry.tokens.prompt for entry in own) // 2,
            reply=sum(entry.tokens.reply for entry in own) // 2,
            cached=sum(entry.tokens.cached for entry in own) // 2,
        )
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
