"""Renders the views of a dialogue: those the model requests, or those a policy chooses."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import TARGET, Question, TargetError
from render_agent.dialogue.reply import Action, Malformed, Place
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Candidate, Evidence, Reading, Turn
from render_agent.dialogue.wording import Wording, general
from render_agent.errors import RenderError, os_errors
from render_agent.render.viewer import Viewer
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import Camera
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.question_types import type_of
from render_agent.util.file_digests import sha256
from render_agent.views.image_store import question_file, scene_file
from render_agent.views.instruments import EXACT, Faults, chance_of, implied_answers, last_request
from render_agent.views.provider import NextViews
from render_agent.views.stress.image_stress import ImageSink
from render_agent.views.targets import Targets, target_camera
from render_agent.views.view_policies.view_policy import AdditionalViews, ViewChooser, ViewContext
from render_agent.visibility.measurement import Measurement, measure_places
from render_agent.visibility.meter import EXACT as EXACT_METER
from render_agent.visibility.meter import FaultyMeter, Meter
from render_agent.visibility.start_pose import Start, moved_start_note, question_pose, start_camera

REACHED = "reached"  # kind in the name of the file of the last view

log = logging.getLogger(__name__)


@dataclass(eq=False)
class FreeViews:
    """Renders the next views of questions. Use it only in the thread that owns the renderer."""

    make_viewer: Callable[[], Viewer]
    """Creates the viewer; called once, when the first view is rendered."""
    scenes: SceneCache
    images: ImageSink
    kinds: Sequence[str]  # view types that the model may request; the first is the default
    start: Start
    opening: Sequence[str]
    facts: Mapping[str, Facts] | None = None
    """Ground-truth facts by scene, for measurements; None disables them."""
    wording: Wording = field(default_factory=general)
    faults: Faults = EXACT  # of measurements
    seed: int = 0
    _starts: dict[str, Camera] = field(init=False, default_factory=dict)
    _starting: dict[str, Lock] = field(init=False, default_factory=lambda: defaultdict(Lock))
    _openings: dict[str, tuple[View, ...]] = field(init=False, default_factory=dict)
    _targets: Targets = field(init=False, default_factory=Targets)

    def observe(self, state: QuestionState) -> NextViews:
        """Return the next views of a question."""
        started_at = time.perf_counter()
        space = self.scenes.space(state.question)
        self.restore(state)
        camera = state.camera or self._start(state)
        views = self._views(state, camera)
        next_views = NextViews(views, camera, space, time.perf_counter() - started_at)
        return next_views if state.turns else self._with_scan(next_views, state)

    def measure(
        self, state: QuestionState, current: NextViews, places: Sequence[Place]
    ) -> tuple[str, Reading | None]:
        """Measure the places in a reply. Return what the model is told, and its record if it can be wrong."""
        question, faults = state.question, self.faults
        facts = (self.facts or {}).get(question.scene)
        views = {view.number: view for view in (*state.views, *current.views)}

        def measure(places: Sequence[Place], stands: Camera, meter: Meter) -> Measurement:
            return measure_places(
                places, views, stands, state.scene, facts, self.viewer, self.wording, meter
            )

        true = measure(places, current.camera, EXACT_METER)
        if not faults.any:
            return true.text, None
        request = (places, current.camera)
        if faults.stale:
            request = last_request(state.turns) or request
        chance = chance_of(self.seed, question, len(state.turns))
        told = measure(*request, FaultyMeter(faults.noise, faults.bias, chance))
        implied = implied_answers(question, told)
        return told.text, Reading("measure", told.text, true.text, true.points, implied)

    def target_errors(
        self, state: QuestionState, current: NextViews, turn: Turn
    ) -> tuple[TargetError, ...]:
        """Return the errors of the camera after a turn; in the first turn, after those at the start."""
        assert current.space is not None, "checked before the run"
        target = self._targets.of(state.question, state.scene, current.space, self.viewer)
        error = target.error_of(turn.camera)
        is_over = getattr(turn.action, "done", False) or turn.number + 1 >= state.max_turns
        if is_over:
            number = max((view.number for view in (*state.views, *turn.views)), default=-1) + 1
            file = question_file(state.id, turn.number, REACHED)
            error = structs.replace(error, view=self._draw(number, "ego", file, state, turn.camera))
        return (error,) if turn.number else (target.error_of(turn.camera_before), error)

    def restore(self, state: QuestionState) -> None:
        """Re-render images of earlier turns that are missing, damaged or different in the run folder."""
        for turn in state.turns:
            trail = state.trail[: turn.number + 1]
            for view in turn.views:
                self._restore_image(state, turn, view, turn.camera_before, trail[:-1])
            candidates = turn.evidence.candidates if turn.evidence else ()
            for candidate in candidates:
                if candidate.view is not None:
                    self._restore_image(state, turn, candidate.view, candidate.camera, trail)
            for error in turn.target_errors:
                if error.view is not None:
                    self._restore_image(state, turn, error.view, turn.camera, trail)

    def preview(
        self, state: QuestionState, current: NextViews, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return the candidates, each with the view it would lead to. Identical views share an image."""
        views = {view.number: view for view in (*state.views, *current.views)}
        trail = [*(turn.camera_before for turn in state.turns), current.camera]
        results = []
        views_by_request: dict[tuple[str, Camera], View] = {}
        for candidate in candidates:
            kind = self._requested_view(candidate.action, views)
            key = str(kind), candidate.camera
            if isinstance(kind, View):
                view = kind
            elif key in views_by_request:
                view = views_by_request[key]
            else:
                file = question_file(state.id, len(state.turns), "candidate", candidate.number + 1)
                view = self._draw(len(views), kind, file, state, candidate.camera, trail)
                views_by_request[key] = view
            results.append(structs.replace(candidate, view=view))
        return results

    def with_store(self, images: ImageSink) -> Self:
        """Return a provider that stores images in another place but shares the viewer and the start poses."""
        _ = self.viewer  # create it once for both
        provider = copy(self)
        provider.images, provider._openings = images, {}
        return provider

    @cached_property
    def viewer(self) -> Viewer:
        """The viewer, created when the first view is rendered."""
        return self.make_viewer()

    def stop(self) -> None:
        """Stop a renderer that runs in a separate process, even while it renders."""
        if "viewer" in self.__dict__:
            self.viewer.stop()

    def close(self) -> None:
        if "viewer" in self.__dict__:
            self.viewer.close()

    def _requested_views(self, state: QuestionState) -> Sequence[str | View]:
        if not state.turns:
            return self.opening
        action = state.turns[-1].action
        if (
            isinstance(action, Action)
            and action.requests_only_measurements
            and previewed_view(state) is None
        ):
            return ()
        views = {view.number: view for view in state.views}
        return (self._requested_view(state.turns[-1].action, views),)

    def _requested_view(self, action: Action | Malformed, views: Mapping[int, View]) -> str | View:
        """Return the view a reply requests: an earlier view, by number, or a view type."""
        request = action.view if isinstance(action, Action) else None
        if isinstance(request, int) and request in views:
            return views[request]
        return request if isinstance(request, str) and request in self.kinds else self.kinds[0]

    def _restore_image(
        self,
        state: QuestionState,
        turn: Turn,
        view: View,
        camera: Camera,
        trail: Sequence[Camera],
    ) -> None:
        """Re-render a view of an earlier turn unless its stored image is intact. `camera` is the pose it was
        requested from.
        """
        if not self.images.is_saved(view.file, turn.sha256.get(view.file)):
            view_camera = view.camera if view.kind == "ego" else None
            camera = view_camera if isinstance(view_camera, Camera) else camera
            if view.kind == TARGET:
                camera = target_camera(state.question, state.scene, self.viewer.vertical_fov)
            self._draw(view.number, view.kind, view.file, state, camera, trail, waits=True)

    def _draw(
        self,
        number: int,
        kind: str,
        file: str,
        state: QuestionState,
        camera: Camera,
        trail: Sequence[Camera] = (),
        waits: bool = False,  # until the image is on disk
    ) -> View:
        """Draw a view and save its image in the background. The camera of a target is not recorded."""
        image = self.viewer.draw("ego" if kind == TARGET else kind, state.scene, camera, trail)
        saved = self.images.save(file, image.image)
        if waits:
            saved.result()
        return View(number, kind, file, None if kind == TARGET else image.camera)

    def _views(self, state: QuestionState, camera: Camera) -> tuple[View, ...]:
        scene = state.question.scene
        shows_target = type_of(state.question).shows_target
        is_shared_start = state.question.start is None and not shows_target
        if not state.turns and is_shared_start and scene in self._openings:
            return self._openings[scene]
        views: list[View] = []
        if not state.turns and shows_target:
            target = target_camera(state.question, state.scene, self.viewer.vertical_fov)
            views.append(self._draw(0, TARGET, question_file(state.id, 0, TARGET), state, target))
        for kind in self._requested_views(state):
            if isinstance(kind, View):
                views.append(kind)
                continue
            turn, number = len(state.turns), len(state.views) + len(views)
            if (preview := previewed_view(state)) is not None:
                views.append(replace(preview, number=number))
                continue
            is_shared = is_shared_start and not turn
            file = scene_file(scene, kind) if is_shared else question_file(state.id, turn, kind)
            views.append(self._draw(number, kind, file, state, camera, state.trail[:turn]))
        for view in shown_rejected_views(state):
            views.append(replace(view, number=len(state.views) + len(views)))
        if not state.turns and is_shared_start:
            self._openings[scene] = tuple(views)
        return tuple(views)

    def _start(self, state: QuestionState) -> Camera:
        question = state.question
        original = question.unchanged  # a counterpart starts where the original question does
        if question.start is not None:
            return self._camera_at(
                original, question_pose(self.scenes.get(original), question.start)
            )
        with self._starting[question.scene]:
            if question.scene not in self._starts:
                camera = self._camera_at(original, self.start)
                if question is not original:
                    camera = camera.at(self.scenes.space(question).nearest_free(camera.position))
                else:
                    for note in moved_start_note(state.scene, self.start, camera):
                        log.warning("scene %s: %s", question.scene, note)
                self._starts[question.scene] = camera
            return self._starts[question.scene]

    def _camera_at(self, question: Question, pose: Start) -> Camera:
        scene, space = self.scenes.get(question), self.scenes.space(question)
        renderer, (width, height) = self.viewer.renderer, self.viewer.size
        return start_camera(scene, renderer, space, pose, self.viewer.vertical_fov, width / height)

    def _with_scan(self, views: NextViews, state: QuestionState) -> NextViews:
        """Add what the first turn records: how the scan was read, and whether the start pose was moved."""
        scene, has_own_start = state.scene, state.question.has_own_start
        start_notes = () if has_own_start else moved_start_note(scene, self.start, views.camera)
        return replace(views, scan=(*scene.description, *start_notes), scan_files=scene.files)


@dataclass(eq=False)
class PolicyViews(FreeViews):
    """Shows all views of a question in its first turn: the opening views, then those chosen by a policy.

    Questions about the same scene share images if the policy allows it.
    """

    policy: ViewChooser = field(kw_only=True)
    _shared: dict[str, tuple[View, ...]] = field(init=False, default_factory=dict)

    def observe(self, state: QuestionState) -> NextViews:
        """Return all views in turn 0 and none later."""
        started_at = time.perf_counter()
        self.restore(state)
        if state.camera is not None:
            return NextViews((), state.camera, None, time.perf_counter() - started_at)
        start = self._start(state)
        views = self._views(state, start)
        policy_views = self._additional_views(state, start)
        additional = self._draw_additional(state, policy_views)
        seconds = time.perf_counter() - started_at
        shown = self._with_scan(NextViews((*views, *additional), start, None, seconds), state)
        frames = {str(path): sha256(path) for path in policy_views.frames.values()}
        notes = (*shown.scan, *policy_views.notes)
        return replace(shown, scan=notes, scan_files={**shown.scan_files, **frames})

    def _additional_views(self, state: QuestionState, start: Camera) -> AdditionalViews:
        space = self.scenes.space(state.question)
        context = ViewContext(state.scene, space, self.viewer.renderer, start, self.viewer.size)
        return self.policy.additional_views(state.question, context)

    def _restore_image(
        self, state: QuestionState, turn: Turn, view: View, camera: Camera, trail: Sequence[Camera]
    ) -> None:
        if not self.images.is_saved(view.file, turn.sha256.get(view.file)):
            frames = self._additional_views(state, turn.camera_before).frames
            if isinstance(view.camera, Camera) and view.camera in frames:
                frame = read_frame(frames[view.camera], self.viewer.size)
                self.images.save(view.file, frame).result()
        super()._restore_image(state, turn, view, camera, trail)

    def with_store(self, images: ImageSink) -> Self:
        provider = super().with_store(images)
        provider._shared = {}
        return provider

    def _draw_additional(
        self, state: QuestionState, additional: AdditionalViews
    ) -> tuple[View, ...]:
        scene = state.question.scene
        is_shared = additional.shared and state.question.start is None
        if is_shared and scene in self._shared:
            return self._shared[scene]
        offset = len(self.opening)
        num_ego_views = self.opening.count("ego")
        views = []
        for index, camera in enumerate(additional.cameras):
            number = num_ego_views + index + 1
            if is_shared:
                file = scene_file(scene, "ego", number)
            else:
                file = question_file(state.id, 0, "ego", number)
            frame = additional.frames.get(camera)
            if frame is None:
                views.append(self._draw(offset + index, "ego", file, state, camera))
            else:
                self.images.save(file, read_frame(frame, self.viewer.size))
                views.append(View(offset + index, "ego", file, camera))
        if is_shared:
            self._shared[scene] = tuple(views)
        return tuple(views)


def read_frame(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return a recorded image, cropped in the middle to the aspect of `size` (width, height) and scaled to it."""
    from PIL import Image, ImageOps

    # Decoders raise arbitrary exceptions on malformed files.
    with (
        os_errors(RenderError, f"read the frame {path}", "restore the file", Exception),
        Image.open(path) as image,
    ):
        return np.asarray(ImageOps.fit(image.convert("RGB"), size, Image.Resampling.LANCZOS))


def previewed_view(state: QuestionState) -> View | None:
    """Return the view rendered for the candidate chosen in the last turn, or None."""
    evidence = state.turns[-1].evidence if state.turns else None
    if evidence is None:
        return None
    return next(c.view for c in evidence.candidates if c.number == evidence.chosen)


def shown_rejected_views(state: QuestionState) -> list[View]:
    """Return the views of rejected candidates if the model is shown these."""
    evidence = state.turns[-1].evidence if state.turns else None
    if evidence is None or not evidence.agent.startswith("show:"):
        return []
    return rejected_views(evidence, state.views)


def rejected_views(evidence: Evidence, shown_views: Sequence[View]) -> list[View]:
    """Return the views of rejected candidates that were not shown before, without duplicates."""
    files = {view.file for view in shown_views}
    files |= {c.view.file for c in evidence.candidates if c.view and c.number == evidence.chosen}
    candidate_views = {c.view.file: c.view for c in evidence.candidates if c.view}
    return [view for file, view in candidate_views.items() if file not in files]
