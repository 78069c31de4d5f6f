"""The program's own values of `--views`; what computes views is imported when it is built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from render_agent.config.choice import InputFile
from render_agent.errors import SetupError
from render_agent.observation.view_policies.base import Policy, ViewPolicy

if TYPE_CHECKING:
    from render_agent.config import RunConfig
    from render_agent.dialogue.state import Question
    from render_agent.questions.ground_truth import Facts


class Free(ViewPolicy):
    """The model chooses its views."""

    name = "free"
    free = True

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the map and the first view, where they are allowed; tours and walks begin alike."""
        return tuple(kind for kind in ("top", "ego") if kind in kinds) or tuple(kinds[:1])

    def note(self, kinds: Sequence[str], max_turns: int) -> None:
        """Nothing must be said of it."""


class Blind(ViewPolicy):
    """Nothing is shown."""

    name = "none"
    blind = True
    shared = True

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return no kind."""
        return ()

    def most_views(self, kinds: Sequence[str], max_turns: int) -> int:
        """Return 0."""
        return 0

    def note(self, kinds: Sequence[str], max_turns: int) -> str:
        """Return that it is blind."""
        return "blind: the model was shown nothing (--views none)"


class _Fixed(ViewPolicy):
    """The first view, and others that follow from it alone."""

    shared = True
    lefts: tuple[float, ...] = ()
    """Degrees by which the first view is turned to the left, for a view each."""
    kind = "ego"

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return its one kind."""
        self.need(self.kind, kinds)
        return (self.kind,)

    def most_views(self, kinds: Sequence[str], max_turns: int) -> int:
        """Return their number, which does not depend on the turns."""
        return 1 + len(self.lefts)

    def build(self, config: RunConfig, questions: Sequence[Question]) -> Policy:
        """Return what turns on the spot."""
        from render_agent.observation.view_policies.fixed import Turned

        return Turned(self.lefts)


class Start(_Fixed):
    """The first view alone."""

    name = "start"
    words = "the first one alone"


class Four(_Fixed):
    """The first view, and those to its left, behind and to its right."""

    name = "four"
    words = "the first one and what is left, right and behind of it"
    lefts = (90.0, 180.0, -90.0)


class Top(_Fixed):
    """The map alone."""

    name = "top"
    words = "the map alone"
    kind = "top"


class RandomWalkViews(ViewPolicy):
    """A random walk, each question its own."""

    name = "random-walk"
    words = "a random walk of {count}"

    def build(self, config: RunConfig, questions: Sequence[Question]) -> Policy:
        """Return what draws the walk from the seed."""
        from render_agent.observation.view_policies.random_walk import RandomWalk

        return RandomWalk(config.max_turns - 1, config.seed)


class TourViews(ViewPolicy):
    """A tour that covers the room."""

    name = "tour"
    words = "a tour of {count} that covers the room"
    shared = True

    def build(self, config: RunConfig, questions: Sequence[Question]) -> Policy:
        """Return what plans the tour."""
        from render_agent.observation.view_policies.tour import Tour

        return Tour(config.max_turns - 1)


class OracleViews(ViewPolicy):
    """Views of the objects that a question names, by boxes that are known."""

    name = "oracle"
    words = "{count} that look at the objects named, by boxes that are known"

    def check(
        self, config: RunConfig, questions: Sequence[Question], *, models: bool = True
    ) -> None:
        """Raise SetupError where nothing is known of a scene that is to be looked at."""
        known_boxes(config, questions)

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give the files of boxes."""
        from render_agent.questions.input_files import annotation_files

        return annotation_files(config, questions)

    def build(self, config: RunConfig, questions: Sequence[Question]) -> Policy:
        """Return what looks at named objects. SetupError as in `check`."""
        from render_agent.observation.view_policies.named_objects import NamedObjects

        return NamedObjects(config.max_turns - 1, known_boxes(config, questions))


def known_boxes(config: RunConfig, questions: Sequence[Question]) -> dict[str, Facts]:
    """Return what is known of the scenes of some questions, by scene.

    SetupError where nothing is known of a scene that is to be looked at.
    """
    from render_agent.questions.ground_truth import known_facts

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
