"""The views of a run that shows all at once, those after the opening as a policy chooses them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from render_agent.dialogue.state import QuestionState, View
from render_agent.observation.base import Observation
from render_agent.observation.free_views import FreeViews
from render_agent.observation.picture_store import question_file, scene_file
from render_agent.observation.view_policies.base import FurtherViews, Policy, ViewContext


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
        space = self.scenes.space(state.placed)
        start = self._start(state, space)
        views = self._views(state, start)
        context = ViewContext(state.scene, space, self.viewer.renderer, start, self.viewer.size)
        more = self._further(state, self.policy.further(state.question, context))
        seconds = time.perf_counter() - began
        return Observation((*views, *more), start, None, seconds, self._scan(state, start))

    def _further(self, state: QuestionState, further: FurtherViews) -> tuple[View, ...]:
        scene = state.placed.scene
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
