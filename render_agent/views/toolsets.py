"""Aids in addition to views (`--tools`): none, measurements, or the ground-truth scene graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.options import RunConfig
from render_agent.tasks.choice import Choice
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.input_files import InputFile, annotation_files


class Toolset(Choice):
    """No aids. Values of `--tools` are this class and its registered subclasses."""

    note: ClassVar[str | None] = None
    """Caveat reported with every score of the run; None if there are no aids."""
    measures: ClassVar[bool] = False
    """True if replies may request measurements."""
    graph: ClassVar[bool] = False
    """True if the scene graph replaces views."""

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Return the annotation files if the aids are computed from object boxes."""
        return annotation_files(config, questions) if self.measures or self.graph else ()


class Measure(Toolset):
    """Exact measurements of pixels and points named in replies."""

    note = "tools: the model could request exact measurements (--tools measure)"
    measures = True


class SceneGraph(Toolset):
    """The ground-truth scene graph as text, instead of views."""

    note = "tools: the model was given the true scene graph and no images (--tools graph)"
    graph = True

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError if a scene has no annotated objects."""
        scenes = {question.scene for question in questions}
        facts = load_facts(questions, config)
        if unknown := sorted(scenes - facts.keys()):
            raise SetupError(
                f"--tools graph needs annotated objects, and {len(unknown)} of {len(scenes)} scenes have none"
                f" ({unknown[0]}). Pass --annotations DIR."
            )
