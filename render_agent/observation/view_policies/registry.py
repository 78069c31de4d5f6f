"""The policy that `--views` names."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.config import RunConfig
from render_agent.dialogue.state import Question
from render_agent.errors import SetupError
from render_agent.observation.view_policies.base import Policy
from render_agent.observation.view_policies.fixed import Turned
from render_agent.observation.view_policies.named_objects import NamedObjects
from render_agent.observation.view_policies.random_walk import RandomWalk
from render_agent.observation.view_policies.tour import Tour
from render_agent.questions.ground_truth import Facts, known_facts


def boxes_of(config: RunConfig, questions: Sequence[Question]) -> dict[str, Facts]:
    """Return what is known of the scenes of some questions, by scene.

    SetupError where nothing is known of a scene that is to be looked at.
    """
    looked_at = [question for question in questions if question.scan is not None]
    facts = known_facts(looked_at, config.annotations)
    unknown = sorted({question.scene for question in looked_at} - facts.keys())
    if unknown:
        raise SetupError(
            f"--views oracle needs the boxes of the objects, and those of {len(unknown)} scenes are not"
            f" known ({unknown[0]} among them): name VSI-Bench's official annotations by --annotations"
            " DIR, or run the bundled rooms by --benchmark rooms"
        )
    return facts


def check_views(config: RunConfig, questions: Sequence[Question]) -> None:
    """SetupError where what the views of some questions depend on is not at hand, before a run begins."""
    if config.passive:
        make_policy(config, questions)


def make_policy(config: RunConfig, questions: Sequence[Question]) -> Policy:
    """Return what chooses the views of a passive run.

    questions: all that it may be asked about. SetupError where what it has to know is not at hand.
    """
    count = config.max_turns - 1
    match config.views:
        case "random-walk":
            return RandomWalk(count, config.seed)
        case "oracle":
            return NamedObjects(count, boxes_of(config, questions))
        case "tour":
            return Tour(count)
        case "four":
            return Turned((90.0, 180.0, -90.0))
        case _:
            return Turned()
