"""What a run asks, draws and judges at the most to choose its moves: every question uses all its turns."""

from __future__ import annotations

from math import comb

from render_agent.config import RunConfig

LATEST = 4
"""Views shown so far that a judge is shown beside a candidate's, the latest ones."""


def pictures_in_prompt(config: RunConfig) -> int:
    """Return the largest number of pictures in a prompt of a run, a judge's included."""
    plan = config.agent_plan
    shown = config.most_views
    if plan.shows_all:  # beside what a move leads to, where the others would have led
        shown += (plan.samples - 1) * (config.max_turns - 1)
    return max(shown, judge_pictures(config) if config.judges else 0)


def weighed_by_turn(config: RunConfig) -> list[int]:
    """Return the number of candidates of a question by turn; none in the last.

    Second moves are among them, where there is a turn in which they could be made.
    """
    plan, turns = config.agent_plan, config.max_turns
    first = plan.candidates if plan.moves else 0
    second = first if plan.depth > 1 else 0
    return [first * (turn + 1 < turns) + second * (turn + 2 < turns) for turn in range(turns)]


def pictures_of_moves(config: RunConfig) -> int:
    """Return the number of pictures drawn for the moves of a question, made or not."""
    if config.agent_plan.draws(config.verifiers):
        return sum(weighed_by_turn(config))
    return config.max_turns - 1


def judge_pictures(config: RunConfig) -> int:
    """Return the largest number of pictures in a judge's prompt: one candidate's or two, and the latest views."""
    return LATEST + (2 if config.judging.pairs else 1)


def judge_requests(config: RunConfig, candidates: int) -> int:
    """Return the number of a judge's requests about so many candidates of one turn."""
    return 2 * comb(candidates, 2) if config.judging.pairs else candidates
