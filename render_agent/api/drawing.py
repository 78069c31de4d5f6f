"""The maps of a run's dialogues, drawn as the run drew its views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from render_agent.api.notebook_pictures import Picture
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question, QuestionState, SceneSource
from render_agent.errors import RenderError
from render_agent.geometry.camera import Camera
from render_agent.render.subprocess.subprocess_renderer import make_guarded
from render_agent.render.views import Viewer


class Maps:
    """Draws maps of the scenes that a run's questions were asked in; a scan is read at the first one.

    questions: gives all questions of the run, as its scenes may depend on them.
    """

    def __init__(self, config: RunConfig, questions: Callable[[], Sequence[Question]]) -> None:
        self.config = config
        self._questions = questions

    @cached_property
    def scenes(self) -> SceneSource:
        """Where the scenes come from."""
        return self.config.picture_stress.scenes(self.config, self._questions())

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
