"""The policy that `--views` names."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.config import RunConfig
from render_agent.state import Question
from render_agent.view_policies.fixed import Turned
from render_agent.view_policies.seam import Policy
from render_agent.view_policies.tour import Tour
from render_agent.view_policies.walk import RandomWalk


def make_policy(config: RunConfig, questions: Sequence[Question]) -> Policy:
    """Return what chooses the views of a passive run.

    questions: all that it may be asked about. SetupError where what it has to know is not at hand.
    """
    count = config.max_turns - 1
    match config.views:
        case "random-walk":
            return RandomWalk(count, config.seed)
        case "tour":
            return Tour(count)
        case "four":
            return Turned((90.0, 180.0, -90.0))
        case _:
            return Turned()
