"""Scores of pictures by comparing them two by two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from render_agent.agents.verifiers.judge import prompts
from render_agent.agents.verifiers.judge.asking import Asking, Shown
from render_agent.agents.verifiers.judge.likelihood import log_odds
from render_agent.agents.verifiers.judge.pairwise import Outcome, orders, standings
from render_agent.agents.verifiers.judge.reading import Unreadable, read_better
from render_agent.agents.verifiers.judge.rubric import LONGEST_REASON, Rubric
from render_agent.agents.verifiers.judge.score import Fault, Score
from render_agent.dialogue.state import Tokens
from render_agent.engines.base import Reply, Scores


@dataclass(frozen=True, slots=True)
class Compared:
    """One order of a comparison: its outcome, or why there is none, and what it took."""

    outcome: Outcome | None
    reason: str
    fault: Fault | None
    tokens: Tokens
    seconds: float


def score_by_pairs(asking: Asking, shown: Sequence[Shown], rubric: Rubric | None) -> list[Score]:
    """Return the win share of every picture among those of its state, in their order."""
    states: dict[object, list[int]] = {}
    for number, entry in enumerate(shown):
        states.setdefault(entry.state, []).append(number)
    pairs = [
        (members[first], members[second])
        for members in states.values()
        for first, second in orders(len(members))
    ]
    compared = dict(zip(pairs, _compare(asking, shown, pairs, rubric), strict=True))
    scores: dict[int, Score] = {}
    for members in states.values():
        here = {
            (first, second): compared[members[first], members[second]]
            for first, second in orders(len(members))
        }
        scores.update(zip(members, _standing_scores(len(members), here), strict=True))
    return [scores[number] for number in range(len(shown))]


def _compare(
    asking: Asking,
    shown: Sequence[Shown],
    pairs: Sequence[tuple[int, int]],
    rubric: Rubric | None,
) -> list[Compared]:
    """Return what every ordered pair says: by probabilities where the engine gives them, else written."""
    likely = asking.engine.capabilities.score
    form = prompts.PAIR_FORMAT if likely else prompts.PAIR_OBJECT_FORMAT
    asked = [
        prompts.about_two(
            shown[one].prompts,
            shown[one].earlier,
            (shown[one].picture, shown[other].picture),
            form,
        )
        for one, other in pairs
    ]
    if likely:
        letters = [word for words in prompts.LETTERS for word in words]
        return [_likelier(found) for found in asking.likely(asked, letters)]
    longest = rubric.longest_reason if rubric else LONGEST_REASON
    return [_named(reply) for reply in asking.written(asked, prompts.pair_schema(longest))]


def _likelier(found: Scores) -> Compared:
    used = found.tokens, found.seconds / found.batch_size
    if found.error is not None:
        return Compared(None, found.error, Fault.ENGINE, *used)
    odds = log_odds(found.log_probabilities, len(prompts.LETTERS[0]))
    if odds is None:
        return Compared(None, "the model gives neither A nor B any probability", Fault.REPLY, *used)
    return Compared(Outcome(odds[0]), "", None, *used)


def _named(reply: Reply) -> Compared:
    used = reply.tokens, reply.seconds / reply.batch_size
    if reply.error is not None:
        return Compared(None, reply.error, Fault.ENGINE, *used)
    better = read_better(reply)
    if isinstance(better, Unreadable):
        return Compared(None, better.reason, Fault.REPLY, *used)
    return Compared(Outcome(1.0 - 2 * better, named=True), "", None, *used)


def _standing_scores(count: int, compared: Mapping[tuple[int, int], Compared]) -> list[Score]:
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
