"""The views of a dialogue: those that the model asks for, or those that a policy chooses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from msgspec import structs

from render_agent.dialogue.evidence import Candidate, Evidence
from render_agent.dialogue.reply import Action, Malformed, Place
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.dialogue.view import View
from render_agent.dialogue.wording import Wording, general
from render_agent.render.start_pose import moved_start, situated, start_camera
from render_agent.render.viewer import Viewer
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import Camera, Vector, wrapped
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.ground_truth import Facts
from render_agent.views.measurement import measured
from render_agent.views.picture_store import question_file, scene_file
from render_agent.views.provider import Observation
from render_agent.views.stress.image_stress import PictureKeeper
from render_agent.views.view_policies.view_policy import FurtherViews, Policy, ViewContext

log = logging.getLogger(__name__)


@dataclass(eq=False)
class FreeViews:
    """Draws the next views of questions; owned by the one thread that owns the renderer.

    make_viewer: makes the viewer, called once, in that thread. kinds: the kinds of view that may be
    asked for; the first stands in where nothing else was asked. start: as `--start` has it. opening:
    the kinds of view that turn 0 shows. facts: what is known of scenes, for measurements; None where none
    may be asked for. wording: the sentences of measurements.
    """

    make_viewer: Callable[[], Viewer]
    scenes: SceneCache
    pictures: PictureKeeper
    kinds: Sequence[str]
    start: str | tuple[Vector, float]
    opening: Sequence[str]
    facts: Mapping[str, Facts] | None = None
    wording: Wording = field(default_factory=general)
    _starts: dict[str, Camera] = field(init=False, default_factory=dict)
    _openings: dict[str, tuple[View, ...]] = field(init=False, default_factory=dict)

    def observe(self, state: QuestionState) -> Observation:
        """Return the next views of a question.

        SceneError or RenderError where its scene cannot be read or drawn, RunLogError where a picture
        that is drawn again cannot be written.
        """
        began = time.perf_counter()
        space = self.scenes.space(state.question)
        self.restore(state)
        camera = state.camera or self._start(state, space)
        views = self._views(state, camera)
        scan = () if state.turns else self._scan(state, camera)
        return Observation(views, camera, space, time.perf_counter() - began, scan)

    def measure(self, state: QuestionState, now: Observation, places: Sequence[Place]) -> str:
        """Return the text of the measurements at places that a reply names; now: what the model was shown.

        SceneError or RenderError where the scene cannot be read or drawn.
        """
        facts = (self.facts or {}).get(state.question.scene)
        views = {view.number: view for view in (*state.views, *now.views)}
        return measured(places, views, now.camera, state.scene, facts, self.viewer, self.wording)

    def restore(self, state: QuestionState) -> None:
        """Draw again the pictures of a question's turns that are gone from the run folder, torn or others.

        SceneError or RenderError where its scene cannot be read or drawn, RunLogError where a
        picture cannot be written.
        """
        for turn in state.turns:
            stood = state.trail[: turn.number + 1]
            for view in turn.views:
                self._draw_again(state, turn, view, turn.stood, stood[:-1])
            candidates = turn.evidence.candidates if turn.evidence else ()
            for candidate in candidates:
                if candidate.view is not None:
                    self._draw_again(state, turn, candidate.view, candidate.camera, stood)

    def preview(
        self, state: QuestionState, now: Observation, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return candidates with what each would be shown next; now: what the question is shown.

        Those that lead to the same share their picture. SceneError or RenderError where the scene cannot be
        read or drawn.
        """
        before = {view.number: view for view in (*state.views, *now.views)}
        stood = [*(turn.stood for turn in state.turns), now.camera]
        previewed = []
        drawn: dict[tuple[str, Camera], View] = {}
        for candidate in candidates:
            kind = self._asked_for(candidate.action, before)
            key = str(kind), candidate.camera
            if isinstance(kind, View):
                view = kind
            elif key in drawn:
                view = drawn[key]
            else:
                picture = self.viewer.draw(kind, state.scene, candidate.camera, stood)
                file = question_file(state.id, len(state.turns), "candidate", candidate.number + 1)
                self.pictures.keep(file, picture.picture)
                view = View(len(before), kind, file, picture.camera)
                drawn[key] = view
            previewed.append(structs.replace(candidate, view=view))
        return previewed

    @cached_property
    def viewer(self) -> Viewer:
        """The viewer, made when the first view is drawn."""
        return self.make_viewer()

    def stop(self) -> None:
        """End a renderer that has a process of its own, in the midst of a view."""
        if "viewer" in self.__dict__:
            self.viewer.stop()

    def close(self) -> None:
        """Give the renderer back."""
        if "viewer" in self.__dict__:
            self.viewer.close()

    def _wanted(self, state: QuestionState) -> Sequence[str | View]:
        if not state.turns:
            return self.opening
        action = state.turns[-1].action
        if isinstance(action, Action) and action.measures_only and previewed_view(state) is None:
            return ()
        shown = {view.number: view for view in state.views}
        return (self._asked_for(state.turns[-1].action, shown),)

    def _asked_for(self, action: Action | Malformed, shown: Mapping[int, View]) -> str | View:
        """Return the view that a reply asks for: one that was shown, by its number, or a kind."""
        requested = action.view if isinstance(action, Action) else None
        if isinstance(requested, int) and requested in shown:
            return shown[requested]
        return (
            requested if isinstance(requested, str) and requested in self.kinds else self.kinds[0]
        )

    def _draw_again(
        self,
        state: QuestionState,
        turn: Turn,
        view: View,
        camera: Camera,
        trail: Sequence[Camera],
    ) -> None:
        """Draw a view of a turn whose picture is gone, torn or another; camera: where it was asked for."""
        if not self.pictures.there(view.file, turn.sha256.get(view.file)):
            taken = view.camera if view.kind == "ego" else None
            camera = taken if isinstance(taken, Camera) else camera
            picture = self.viewer.draw(view.kind, state.scene, camera, trail)
            self.pictures.keep(view.file, picture.picture).result()

    def _views(self, state: QuestionState, camera: Camera) -> tuple[View, ...]:
        scene = state.question.scene
        alike = state.question.start is None  # all questions of a scene begin alike
        if not state.turns and alike and scene in self._openings:
            return self._openings[scene]
        views: list[View] = []
        for kind in self._wanted(state):
            if isinstance(kind, View):
                views.append(kind)
                continue
            turn, number = len(state.turns), len(state.views) + len(views)
            if (drawn := previewed_view(state)) is not None:
                views.append(replace(drawn, number=number))
                continue
            shared = alike and not turn
            file = scene_file(scene, kind) if shared else question_file(state.id, turn, kind)
            picture = self.viewer.draw(kind, state.scene, camera, state.trail[:turn])
            self.pictures.keep(file, picture.picture)
            views.append(View(number, kind, file, picture.camera))
        for view in unmade_views_shown(state):
            views.append(replace(view, number=len(state.views) + len(views)))
        if not state.turns and alike:
            self._openings[scene] = tuple(views)
        return tuple(views)

    def _start(self, state: QuestionState, space: FreeSpace) -> Camera:
        question = state.question
        unchanged = question.unchanged  # a pair begins at one place, in the room that both have
        if question.change is not None:
            space = self.scenes.space(unchanged)
        if question.start is not None:
            scene = self.scenes.get(unchanged)
            where = situated(scene, question.start)
            return start_camera(scene, self.viewer.renderer, space, where, self.viewer.vertical_fov)
        if question.scene not in self._starts:
            scene = self.scenes.get(unchanged)
            camera = start_camera(
                scene, self.viewer.renderer, space, self.start, self.viewer.vertical_fov
            )
            if question is not unchanged:
                camera = self._in_changed_room(state, camera, self.scenes.space(question))
            else:
                for note in moved_start(state.scene, self.start, camera):
                    log.warning("scene %s: %s", question.scene, note)
            self._starts[question.scene] = camera
        return self._starts[question.scene]

    def _in_changed_room(self, state: QuestionState, camera: Camera, space: FreeSpace) -> Camera:
        """Return the camera of a room in that room once it was changed: it goes with it, but keeps its height."""
        edits = state.question.change.edits if state.question.change else ()
        position, yaw = np.array(camera.position, np.float64), camera.yaw
        for edit in edits:
            if edit.moves_all:
                position[:2] = edit.moved(position, np.array(state.scene.origin))[:2]
                yaw = wrapped(yaw + edit.degrees)
        x, y, z = map(float, space.nearest_free(position))
        return replace(camera, position=(x, y, z), yaw=yaw)

    def _scan(self, state: QuestionState, camera: Camera) -> tuple[str, ...]:
        """Return the sentences of a dialogue's first turn about its scene: how it was read, and a start that was moved."""
        apart = state.question.begins_apart
        moved = () if apart else moved_start(state.scene, self.start, camera)
        return (*state.scene.description, *moved)


@dataclass(eq=False)
class PolicyViews(FreeViews):
    """Draws all views of a question in its first turn, those after the opening as a policy chooses them.

    Questions of a scene share the pictures that they have in common.
    """

    policy: Policy = field(kw_only=True)
    _shared: dict[str, tuple[View, ...]] = field(init=False, default_factory=dict)

    def observe(self, state: QuestionState) -> Observation:
        """Return all views in turn 0, none later.

        SceneError or RenderError where its scene cannot be read or drawn, RunLogError where a picture
        that is drawn again cannot be written.
        """
        began = time.perf_counter()
        self.restore(state)
        if state.camera is not None:
            return Observation((), state.camera, None, time.perf_counter() - began)
        space = self.scenes.space(state.question)
        start = self._start(state, space)
        views = self._views(state, start)
        context = ViewContext(state.scene, space, self.viewer.renderer, start, self.viewer.size)
        more = self._further(state, self.policy.further(state.question, context))
        seconds = time.perf_counter() - began
        return Observation((*views, *more), start, None, seconds, self._scan(state, start))

    def _further(self, state: QuestionState, further: FurtherViews) -> tuple[View, ...]:
        scene = state.question.scene
        shared = further.shared and state.question.start is None
        if shared and scene in self._shared:
            return self._shared[scene]
        first = len(self.opening)
        egos = self.opening.count("ego")
        views = []
        for index, camera in enumerate(further.cameras):
            number = egos + index + 1
            if shared:
                file = scene_file(scene, "ego", number)
            else:
                file = question_file(state.id, 0, "ego", number)
            picture = self.viewer.ego(state.scene, camera)
            self.pictures.keep(file, picture.picture)
            views.append(View(first + index, "ego", file, camera))
        if shared:
            self._shared[scene] = tuple(views)
        return tuple(views)


def previewed_view(state: QuestionState) -> View | None:
    """Return the view that was drawn when the last move was chosen, None where none was."""
    evidence = state.turns[-1].evidence if state.turns else None
    if evidence is None:
        return None
    return next(c.view for c in evidence.candidates if c.number == evidence.chosen)


def unmade_views_shown(state: QuestionState) -> list[View]:
    """Return the views of the moves that were not made, where the model is shown them."""
    evidence = state.turns[-1].evidence if state.turns else None
    if evidence is None or not evidence.agent.startswith("show:"):
        return []
    return unmade_views(evidence, state.views)


def unmade_views(evidence: Evidence, shown: Sequence[View]) -> list[View]:
    """Return the views of the moves that were not made: each picture once, none that was shown before."""
    before = {view.file for view in shown}
    before |= {c.view.file for c in evidence.candidates if c.view and c.number == evidence.chosen}
    others = {c.view.file: c.view for c in evidence.candidates if c.view}
    return [view for file, view in others.items() if file not in before]
