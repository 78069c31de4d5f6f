"""What helps the model beside its views, as `--tools` names it: nothing, measurements, or the true scene graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.options import RunConfig
from render_agent.tasks.choice import Choice
from render_agent.tasks.ground_truth import known_facts


class Toolset(Choice):
    """No help; a value of `--tools` is this class or a subclass, which the registry names."""

    note: ClassVar[str | None] = None
    """What must be said beside every figure of the run; None where nothing helps."""
    measures: ClassVar[bool] = False
    """Whether a reply may ask for measurements."""
    graph: ClassVar[bool] = False
    """Whether the scene graph is told in the place of views."""


class Measure(Toolset):
    """Exact measurements of pixels and points that a reply names."""

    note = "tools: the model could ask for exact measurements (--tools measure)"
    measures = True


class SceneGraph(Toolset):
    """The true scene graph as text, in the place of views."""

    note = "tools: the model was told the true scene graph and shown nothing (--tools graph)"
    graph = True

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError where the objects of a scene are not known."""
        scenes = {question.scene for question in questions}
        known = known_facts(questions, config.annotations)
        if unknown := sorted(scenes - known.keys()):
            raise SetupError(
                f"--tools graph tells what stands in a scene, and of {len(unknown)} of {len(scenes)} scenes"
                f" nobody wrote that down ({unknown[0]}): give --annotations DIR"
            )
