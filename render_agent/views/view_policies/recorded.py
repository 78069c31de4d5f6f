"""The data set's own camera path, rendered or as its recorded frames (`--views recorded`, `--frames`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from render_agent.dialogue.question import Question
from render_agent.errors import SceneError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.scans.trajectories import (
    evenly,
    find_trajectory,
    place_trajectory,
    read_trajectory,
    trajectory_files,
)
from render_agent.tasks.input_files import InputFile
from render_agent.util.file_digests import sha256
from render_agent.util.numbers import is_number
from render_agent.views.view_policies.view_policy import AdditionalViews, ViewContext, ViewPolicy

FRAME_SUFFIXES = (".jpg", ".png", ".jpeg")
MAX_COUNT = 1000  # images


class RecordedViews(ViewPolicy):
    """Images evenly in time along the recorded path; the text after the colon is their number."""

    name = "recorded"
    description = "{count} of the recorded camera path"
    shared = True
    is_video = True
    takes_argument = True

    def __init__(self, argument: str | None = None) -> None:
        super().__init__(argument)
        if argument is not None and not (argument.isdecimal() and 1 <= int(argument) <= MAX_COUNT):
            raise UsageError(f"--views {self.text} needs a number of images from 1 to {MAX_COUNT}")
        self.count = None if argument is None else int(argument)

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return no views: all are on the path."""
        self.need("ego", kinds)
        return ()

    def max_views(self, kinds: Sequence[str], max_turns: int) -> int:
        return self.count or max_turns

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError if a scan has no recorded path or no frames."""
        scans = {q.unchanged.scene: q.scan for q in questions if q.scan is not None}
        missing = {name: scan for name, scan in scans.items() if find_trajectory(scan) is None}
        if missing:
            name, scan = next(iter(missing.items()))
            raise SetupError(
                f"{len(missing)} of {len(scans)} scans have no recorded camera path, such as {name}. Put the poses of its"
                f" data set, or {scan.stem}.poses.json, next to {scan}."
            )
        for name in scans if config.frames else ():
            if not _frame_files(config.frames, name):
                raise SetupError(f"--frames {config.frames} has no images in the folder {name}")

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Yield the files of the paths."""
        scans = sorted({question.scan for question in questions if question.scan is not None})
        for file in chain.from_iterable(map(trajectory_files, scans)):
            yield InputFile("scans", str(file), sha256(file))

    def build(self, config: RunConfig, questions: Sequence[Question]) -> RecordedPath:
        return RecordedPath(self.max_views(config.view_types, config.max_turns), config.frames)


@dataclass(eq=False)
class RecordedPath:
    """Chooses views on the recorded path of each scene."""

    count: int
    frames: str | None
    """Folder with the recorded frames of each scene; None to render."""
    _planned: dict[str, AdditionalViews] = field(default_factory=dict)

    def additional_views(self, question: Question, context: ViewContext) -> AdditionalViews:
        """Return the views of the question's scene, in order."""
        if question.scene not in self._planned:
            self._planned[question.scene] = self._plan(question.unchanged, context)
        return self._planned[question.scene]

    def _plan(self, question: Question, context: ViewContext) -> AdditionalViews:
        scan = context.scene.source
        assert scan is not None, "checked before the run"
        aspect = context.size[0] / context.size[1]
        path, dropped = place_trajectory(
            read_trajectory(scan), context.scene, context.start, aspect
        )
        note = f"camera path: {len(path):,} poses, {dropped}"
        if self.frames is None:
            return AdditionalViews([p.camera for p in evenly(path, self.count)], notes=(note,))
        files = _frame_files(self.frames, question.scene)
        framed = [pose for pose in path if _frame_name(pose.image) in files]
        if not framed:
            raise SceneError(
                f"no frame of {question.scene} is named like a recorded pose, such as {path[0].image}. Rename them."
            )
        chosen = evenly(framed, self.count)
        frames = {pose.camera: files[_frame_name(pose.image)] for pose in chosen}
        return AdditionalViews([pose.camera for pose in chosen], frames=frames, notes=(note,))


def _frame_files(folder: str | None, scene: str) -> dict[str, Path]:
    """Return the frames of a scene by name without suffix: DIR/SCENE/NAME.jpg, or in its subfolder color or images."""
    places = [Path(folder or "", scene, part) for part in ("", "color", "images")]
    files = (file for place in places if place.is_dir() for file in sorted(place.iterdir()))
    return {
        _frame_name(file.stem.removeprefix(f"{scene}_")): file
        for file in files
        if file.suffix.lower() in FRAME_SUFFIXES
    }


def _frame_name(name: str) -> str:
    """Return the name of a frame; if it is a time, as in ARKitScenes, to the millisecond."""
    return f"{float(name):.3f}" if "." in name and is_number(name) else name
