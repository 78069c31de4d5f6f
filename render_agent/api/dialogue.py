"""The dialogue about one question of a run, turn by turn: views, replies and actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from render_agent.api.notebook_pictures import Picture, View, page
from render_agent.config import RunConfig
from render_agent.config.flags import with_keywords
from render_agent.dialogue.candidates import Standing, standings
from render_agent.dialogue.chat import Message
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import Evidence, Question, QuestionState, SceneSource, Status, Turn
from render_agent.errors import RenderAgentError, RenderError
from render_agent.geometry.camera import Camera
from render_agent.render.subprocess_renderer import make_guarded
from render_agent.render.views import Viewer
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.results import row
from render_agent.text.display import counted
from render_agent.text.reasons import shortened


@dataclass(eq=False)
class Maps:
    """Draws maps of the scenes that a run's questions were asked in; a scan is read at the first one.

    questions: gives all questions of the run, as its scenes may depend on them.
    """

    config: RunConfig
    questions: Callable[[], Sequence[Question]]

    @cached_property
    def scenes(self) -> SceneSource:
        """Where the scenes come from."""
        return self.config.picture_stress.scenes(self.config, self.questions())

    def of(self, state: QuestionState, size: tuple[int, int] | None = None) -> Picture:
        """Return the map of a question's scene with the places its views were taken from, numbered.

        size: width and height in pixels, those of the run's views unless given. SceneError where the
        scan is not at hand, RenderError where nothing was shown.
        """
        path = camera_path(state, passive=self.config.passive)
        if state.blind or not path:
            raise RenderError(f"there is no map of question {state.id}: nothing was shown")
        scene = self.scenes.get(state.question)
        viewer = Viewer(
            make_guarded(self.config.renderer),
            size or self.config.image_size,
            self.config.field_of_view,
        )
        try:
            drawn = viewer.top(scene, path[-1], path[:-1])
        finally:
            viewer.close()
        return Picture(drawn.picture, None, drawn.camera, "top")


def camera_path(state: QuestionState, *, passive: bool) -> list[Camera]:
    """Return the poses of a question, one a turn: where it stood; or those of the views chosen for it."""
    stood = [turn.stood for turn in state.turns]
    if not passive:
        return stood
    cameras = [view.camera for view in state.views if isinstance(view.camera, Camera)]
    return cameras or stood[:1]


@dataclass(frozen=True, eq=False, repr=False)
class DialogueTurn:
    """One turn of a dialogue; `logged` has all that the run's log holds of it.

    views: the pictures shown, also those shown again.

    >>> import render_agent
    >>> room = render_agent.bundled_rooms()["room00"]
    >>> dialogue = render_agent.ask(room, "Is there a sofa?", engine="scripted", output="runs")
    >>> dialogue.turns[0]
    <turn 0: 2 views, I look around first.>
    >>> dialogue.turns[0].action.view
    'around'
    """

    logged: Turn
    views: tuple[View, ...]

    @property
    def number(self) -> int:
        """Counted from 0."""
        return self.logged.number

    @property
    def reply(self) -> str:
        """What the model said, word for word."""
        return self.logged.reply

    @property
    def action(self) -> Action | Malformed:
        """What its reply asked for, or why it could not be read."""
        return self.logged.action

    @property
    def reasoning(self) -> str:
        """The reasoning in the reply; for one that could not be read, why."""
        action = self.logged.action
        return action.reasoning if isinstance(action, Action) else action.reason

    @property
    def happened(self) -> str:
        """What the action really did, in the words that the model reads next."""
        return self.logged.feedback

    @property
    def evidence(self) -> Evidence | None:
        """The candidates of the turn and what spoke for each; None where it had one reply."""
        return self.logged.evidence

    @property
    def candidates(self) -> list[Standing]:
        """How every candidate of the turn stood; none where it had one reply.

        `candidate` has its reply, action and pose, `chosen` whether it was taken, `scores` one score a
        member, `fused` what they came to.
        """
        return [] if self.logged.evidence is None else standings(self.logged.evidence)

    def __repr__(self) -> str:
        views = counted(len(self.views), "view")
        return f"<turn {self.number}: {views}, {shortened(self.reasoning)}>"


class Dialogue:
    """One question and all its turns, as the log of its run has them; it shows itself in a notebook.

    >>> import render_agent
    >>> room = render_agent.bundled_rooms()["room00"]
    >>> dialogue = render_agent.ask(
    ...     room, "Which is larger?", options=["the sofa", "the table"], engine="scripted", output="runs"
    ... )
    >>> dialogue.answer, str(dialogue.status)
    ('A', 'answered')
    >>> len(dialogue.turns) <= 9
    True
    >>> dialogue.map()
    <picture (top), 640 x 480 pixels>
    """

    def __init__(self, folder: RunFolder, state: QuestionState, maps: Maps) -> None:
        self.folder = folder
        self._state = state
        self._maps = maps

    @property
    def question(self) -> Question:
        """The question: its text, options, truth, scene."""
        return self._state.question

    @property
    def status(self) -> Status:
        """Where it stands: answered, exhausted, active, failed or missing."""
        return self._state.status

    @property
    def answer(self) -> str | None:
        """The last answer given, in canonical form: a letter, a number or a text."""
        return self._state.answer

    @property
    def answer_text(self) -> str | None:
        """The same in the model's own words."""
        return self._state.answer_text

    @property
    def truth(self) -> str | None:
        """The right answer; None where nobody knows it."""
        return self.question.truth

    @cached_property
    def score(self) -> float | None:
        """The official score, 0 to 1; None where the truth is not known or the question is not done."""
        score: float | None = row(self._state)["score"]
        return score

    @property
    def error(self) -> str | None:
        """What stopped it, None where nothing did."""
        error = self._state.error
        return None if error is None else with_keywords(error)

    @property
    def messages(self) -> list[Message]:
        """All messages, replies included; their pictures are files relative to `folder.path`."""
        return self._state.dialogue

    @cached_property
    def turns(self) -> tuple[DialogueTurn, ...]:
        """The turns in order."""
        path = self.folder.path
        return tuple(
            DialogueTurn(
                turn,
                tuple(
                    View(self.question.id, view.number, view.kind, path / view.file, view.camera)
                    for view in turn.views
                ),
            )
            for turn in self._state.turns
        )

    @property
    def views(self) -> list[View]:
        """Every picture shown, each once, by its number."""
        shown = {view.number: view for turn in self.turns for view in turn.views}
        return [shown[number] for number in sorted(shown)]

    def map(self, size: tuple[int, int] | None = None) -> Picture:
        """Return the map of the scene with the numbered path of the camera.

        size: width and height in pixels, those of the run's views unless given. SceneError where
        the scan is not at hand, RenderError where nothing was shown.
        """
        return self._maps.of(self._state, size)

    def __len__(self) -> int:
        return len(self._state.turns)

    def __repr__(self) -> str:
        answer = "no answer" if self.answer is None else f"answer {self.answer!r}"
        turns = counted(len(self), "turn")
        return f"<dialogue of question {self.question.id}: {self.status}, {answer}, {turns}>"

    def _repr_html_(self) -> str:
        try:
            top = self.map().thumbnail() if self.turns else None
        except RenderAgentError:  # the scan may be on another machine, or nothing was shown
            top = None
        return page("dialogue.html", dialogue=self, map=top)
