"""Look: the next views of a question, drawn and on their way to disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from render_agent.action import Action
from render_agent.camera import Camera, Vector
from render_agent.render.start import start_camera
from render_agent.render.views import Viewer
from render_agent.run_log.pictures import question_file, scene_file
from render_agent.scene.free_space import FreeSpace
from render_agent.state import Question, QuestionState, SceneSource, View
from render_agent.stress.pictures import PictureKeeper
from render_agent.view_policies.seam import Further, Place, Policy


class SpaceSource(SceneSource, Protocol):
    """Where a look gets its scene and the free space in it from."""

    def space(self, question: Question) -> FreeSpace:
        """Return the free space of the question's scene. SceneError where its scan cannot be read."""
        ...


Shown = tuple[tuple[View, ...], tuple[Future[None], ...]]
"""Views, and for each picture that was drawn when it is on disk."""


@dataclass(frozen=True, eq=False)
class Look:
    """What a question is shown in its next turn.

    camera: where it stands. space: where it may go from there, None where nothing is shown. written:
    done when the pictures are on disk. seconds: what drawing took.
    """

    views: tuple[View, ...]
    camera: Camera
    space: FreeSpace | None
    written: tuple[Future[None], ...] = ()
    seconds: float = 0.0


class Looking(Protocol):
    """Gives the next views of questions; owned by one thread."""

    def look(self, state: QuestionState) -> Look:
        """Return the next views of a question."""
        ...

    def restore(self, state: QuestionState) -> None:
        """Draw again the pictures of a question's turns that are gone from the run folder."""
        ...

    def close(self) -> None:
        """Give back what was needed for it."""
        ...


class Blindfold:
    """Shows nothing: the camera stands at the origin and stays there."""

    def look(self, state: QuestionState) -> Look:
        """Return no view."""
        return Look((), Camera((0.0, 0.0, 0.0)), None)

    def restore(self, state: QuestionState) -> None:
        """Nothing was drawn."""

    def close(self) -> None:
        """Nothing was needed."""


class Looker:
    """Draws the next views of questions; owned by the one thread that owns the renderer.

    make_viewer: makes the viewer, called once, in that thread. kinds: the kinds of view that may be
    asked for; the first stands in where nothing else was asked. start: as `--start` has it. opening:
    the kinds of view that turn 0 shows.
    """

    def __init__(
        self,
        make_viewer: Callable[[], Viewer],
        scenes: SpaceSource,
        pictures: PictureKeeper,
        kinds: Sequence[str],
        start: str | tuple[Vector, float],
        opening: Sequence[str],
    ) -> None:
        self.scenes = scenes
        self.pictures = pictures
        self.kinds = tuple(kinds)
        self.start = start
        self.opening = tuple(opening)
        self._make_viewer = make_viewer
        self._viewer: Viewer | None = None
        self._starts: dict[str, Camera] = {}
        self._openings: dict[str, Shown] = {}

    def look(self, state: QuestionState) -> Look:
        """Return the next views of a question.

        SceneError or RenderError where its scene cannot be read or drawn, RunLogError where a
        picture cannot be written.
        """
        began = time.perf_counter()
        space = self.scenes.space(state.question)
        self.restore(state)
        camera = state.camera or self._start(state, space)
        views, written = self._views(state, camera)
        seconds = time.perf_counter() - began
        return Look(views, camera, space, written, seconds)

    def restore(self, state: QuestionState) -> None:
        """Draw again the pictures of a question's turns that are gone from the run folder.

        SceneError or RenderError where its scene cannot be read or drawn, RunLogError where a
        picture cannot be written.
        """
        for turn in state.turns:
            for view in turn.views:
                if not self.pictures.there(view.file):
                    trail = state.trail[: turn.number]
                    taken = view.camera if view.kind == "ego" else None
                    camera = taken if isinstance(taken, Camera) else turn.stood
                    picture = self.viewer.draw(view.kind, state.scene, camera, trail)
                    self.pictures.keep(view.file, picture.picture).result()

    @property
    def viewer(self) -> Viewer:
        """The viewer, made at the first look."""
        if self._viewer is None:
            self._viewer = self._make_viewer()
        return self._viewer

    def close(self) -> None:
        """Give the renderer back."""
        if self._viewer is not None:
            self._viewer.close()

    def _wanted(self, state: QuestionState) -> tuple[str | View, ...]:
        if not state.turns:
            return self.opening
        action = state.turns[-1].action
        asked = action.view if isinstance(action, Action) else None
        if isinstance(asked, int) and asked < len(state.views):
            return (state.views[asked],)
        return (asked,) if asked in self.kinds else self.kinds[:1]

    def _views(self, state: QuestionState, camera: Camera) -> Shown:
        scene = state.question.scene
        if not state.turns and scene in self._openings:  # all questions of a scene begin alike
            return self._openings[scene]
        views: list[View] = []
        written = []
        for kind in self._wanted(state):
            if isinstance(kind, View):
                views.append(kind)
                continue
            turn = len(state.turns)
            file = question_file(state.id, turn, kind) if turn else scene_file(scene, kind)
            picture = self.viewer.draw(kind, state.scene, camera, state.trail[:turn])
            written.append(self.pictures.keep(file, picture.picture))
            views.append(View(len(state.views) + len(views), kind, file, picture.camera))
        shown = tuple(views), tuple(written)
        if not state.turns:
            self._openings[scene] = shown
        return shown

    def _start(self, state: QuestionState, space: FreeSpace) -> Camera:
        scene = state.question.scene
        if scene not in self._starts:
            self._starts[scene] = start_camera(
                state.scene, self.viewer.renderer, space, self.start, self.viewer.vertical_fov
            )
        return self._starts[scene]


class PassiveLooker(Looker):
    """Draws all views of a question in its first turn, those after the opening as a policy chooses them.

    Questions of a scene share the pictures that they have in common.
    """

    def __init__(
        self,
        make_viewer: Callable[[], Viewer],
        scenes: SpaceSource,
        pictures: PictureKeeper,
        policy: Policy,
        start: str | tuple[Vector, float],
        opening: Sequence[str],
    ) -> None:
        super().__init__(make_viewer, scenes, pictures, opening, start, opening)
        self.policy = policy
        self._shared: dict[str, Shown] = {}

    def look(self, state: QuestionState) -> Look:
        """Return all views in turn 0, none later.

        SceneError or RenderError where its scene cannot be read or drawn, RunLogError where a
        picture cannot be written.
        """
        began = time.perf_counter()
        self.restore(state)
        if state.camera is not None:
            return Look((), state.camera, None, (), time.perf_counter() - began)
        space = self.scenes.space(state.question)
        start = self._start(state, space)
        views, written = self._views(state, start)
        place = Place(state.scene, space, self.viewer.renderer, start, self.viewer.size)
        more, later = self._further(state, self.policy.further(state.question, place))
        seconds = time.perf_counter() - began
        return Look((*views, *more), start, None, (*written, *later), seconds)

    def _further(self, state: QuestionState, further: Further) -> Shown:
        scene = state.question.scene
        if further.shared and scene in self._shared:
            return self._shared[scene]
        first = len(self.opening)
        egos = self.opening.count("ego")
        views, written = [], []
        for index, camera in enumerate(further.cameras):
            number = egos + index + 1
            if further.shared:
                file = scene_file(scene, "ego", number)
            else:
                file = question_file(state.id, 0, "ego", number)
            picture = self.viewer.ego(state.scene, camera)
            written.append(self.pictures.keep(file, picture.picture))
            views.append(View(first + index, "ego", file, camera))
        shown = tuple(views), tuple(written)
        if further.shared:
            self._shared[scene] = shown
        return shown
