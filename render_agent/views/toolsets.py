"""Aids in addition to views (`--tools`): none, measurements, or the scene graph; exact, or with faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.input_files import Choice
from render_agent.views.instruments import parse_faults


class Toolset(Choice):
    """No aids. Values of `--tools` are this class and its registered subclasses.

    The text after the colon in `--tools` names the faults of the instrument; without it, the instrument is exact.
    """

    name: ClassVar[str] = "none"
    caveats: ClassVar[tuple[str, str] | None] = None
    """What every score of a run states about the aid if it is exact, and if it has faults; None if there is no aid."""
    measures: ClassVar[bool] = False
    """True if replies may request measurements."""
    graph: ClassVar[bool] = False
    """True if the scene graph replaces views."""
    fault_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, argument: str | None = None) -> None:
        self.text = self.name if argument is None else f"{self.name}:{argument}"
        if argument is not None and not self.fault_names:
            raise UsageError(f"--tools {self.name} has no faults. Omit the text after the colon.")
        self.faults = parse_faults("--tools", argument or "", self.fault_names)

    @property
    def note(self) -> str | None:
        """Caveat reported with every score of the run; None if there are no aids."""
        if self.caveats is None:
            return None
        return f"tools: {self.caveats[self.faults.any]} (--tools {self.text})"

    def reads_boxes(self, config: RunConfig) -> bool:
        return self.measures or self.graph


class Measure(Toolset):
    """Measurements of pixels and points named in replies."""

    name = "measure"
    caveats = (
        "the model could request exact measurements",
        "the model could request measurements, which have errors",
    )
    measures = True
    fault_names = ("noise", "bias", "stale")


class SceneGraph(Toolset):
    """The ground-truth scene graph as text, instead of views."""

    name = "graph"
    caveats = (
        "the model was given the true scene graph and no images",
        "the model was given a scene graph with errors and no images",
    )
    graph = True
    fault_names = ("wrong",)

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError if a scene has no annotated objects."""
        scenes = {question.scene for question in questions}
        facts = load_facts(questions, config)
        if unknown := sorted(scenes - facts.keys()):
            raise SetupError(
                f"--tools graph needs annotated objects, and {len(unknown)} of {len(scenes)} scenes have none"
                f" ({unknown[0]}). Pass --annotations DIR."
            )
