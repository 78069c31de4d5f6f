"""Renders labelled images of training rooms for `training.perception`.

python -m training.perception_images OUT ROOMS...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.render.around import camera_ahead, cell_size, draw_around
from render_agent.render.make_renderer import make_renderer
from render_agent.render.renderer import Renderer
from render_agent.render.viewer import Viewer
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Camera, Vector
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.room_ground_truth import RoomGroundTruth, read_ground_truth
from render_agent.util.safe_parse import to_plain
from render_agent_lab.expert.sightings import MIN_IMAGE_SHARE, MIN_MAP_SHARE
from training.image_file import SHAPE, resize
from training.labels import CELLS, SIZE, TARGETS, CellLabeller, CellLabels, join_directions

FIELD_DEGREES = 75.0  # horizontal field of view of camera views in degrees

# Views per variant of a room, besides its map; 1 means an around view (see `room_images`).
VIEWS_PER_VARIANT = (2, 2, 0, 0, 1)

KINDS = ("top", "ego", "around")
SHOWN_FILE = "shown.jsonl"  # one line per image: the positions of the objects it shows


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """A rendered image with its labels."""

    image: NDArray[np.uint8]  # (240, 320, 3) uint8
    labels: CellLabels
    kind: str
    camera: Camera
    places: NDArray[np.float64]  # (boxes, 2) metres, positions of the objects in the map's frame
    names: Sequence[str]  # (boxes,) labels of the objects

    def description(self) -> dict[str, object]:
        """Return the image's line of the file SHOWN_FILE.

        `shown` has the positions, by name, of objects with enough pixels for the expert; `hidden` has the names without
        such an object.
        """
        min_share = MIN_MAP_SHARE if self.kind == "top" else MIN_IMAGE_SHARE
        is_shown = self.labels.pixels >= min_share * SIZE[0] * SIZE[1]
        shown: dict[str, list[list[float]]] = {}
        for number in np.flatnonzero(is_shown):
            shown.setdefault(self.names[int(number)], []).append(self.places[number].tolist())
        hidden = sorted(set(self.names) - shown.keys())
        return {
            "kind": self.kind,
            "camera": to_plain(self.camera),
            "shown": shown,
            "hidden": hidden,
        }


def room_images(
    scan: Path, rng: np.random.Generator, renderer: Renderer, viewer: Viewer
) -> Iterator[LabelledImage]:
    """Yield labelled images of a room.

    The room is rendered as it is and in several rotations and reflections: each time a map and the number of views
    given by VIEWS_PER_VARIANT, or a single around view for 1.
    """
    truth = read_ground_truth(scan.with_suffix(".json"))
    original = load_scene(scan)
    standing_places = FreeSpace.of(original).standing_places()
    names = [entry.label for entry in truth.objects]
    variants = rng.permutation(np.arange(1, 8))
    for number, views in enumerate(VIEWS_PER_VARIANT):
        variant = 0 if not number else int(variants[number - 1])
        scene, boxes, places = transform_room(
            original, truth, standing_places, variant % 4, mirrored=variant >= 4
        )
        labeller = CellLabeller(scene, boxes, names)
        trail = [_pose(places, rng) for _ in range(int(rng.integers(1, 4)))]
        centres = labeller.centres[:, :2]
        yield LabelledImage(
            *_render_map(scene, labeller, trail, viewer), "top", trail[-1], centres, names
        )
        if views == 1:
            camera = _pose(places, rng)
            around = _render_around(scene, labeller, camera, renderer)
            yield LabelledImage(*around, "around", camera, centres, names)
            continue
        for _ in range(views):
            camera = replace(_pose(places, rng), vertical_fov=viewer.vertical_fov)
            camera = camera.turned(up=float(rng.choice([0, 0, 0, -15, -30, 30])))
            frame = renderer.draw(scene, camera, *SIZE)
            labels = labeller.of_view(frame, camera, camera)
            yield LabelledImage(frame.colours, labels, "ego", camera, centres, names)


def transform_room(
    scene: Scene,
    truth: RoomGroundTruth,
    places: NDArray[np.float64],  # positions to transform, (n, 3) metres
    quarters: int,
    *,
    mirrored: bool,  # whether to mirror it along x first
) -> tuple[Scene, list[OrientedBox], NDArray[np.float64]]:
    """Rotate a scene about the vertical axis."""
    angle = np.pi / 2 * quarters
    rotation = np.round(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    if mirrored:
        rotation = rotation @ np.diag([-1.0, 1.0, 1.0])
    corners = scene.bounds @ rotation.T
    bounds = np.stack([corners.min(axis=0), corners.max(axis=0)])
    shift = scene.bounds[0] - bounds[0]
    points = (scene.points @ rotation.T + shift).astype(np.float32)
    # The mirror image of a box is a box; keep its axes right-handed
    axis_signs = np.array([[1.0], [1.0], [-1.0 if mirrored else 1.0]])
    boxes = [
        OrientedBox(
            rotation @ entry.centre + shift, entry.size, entry.axes @ rotation.T * axis_signs
        )
        for entry in truth.objects
    ]
    return replace(scene, points=points, bounds=bounds + shift), boxes, places @ rotation.T + shift


def _pose(places: NDArray[np.float64], rng: np.random.Generator) -> Camera:
    x, y, z = (float(value) for value in places[int(rng.integers(len(places)))])
    position: Vector = (x, y, z)
    yaw = (
        float(rng.choice([0, 90, 180, -90]))
        if rng.random() < 0.3
        else float(rng.integers(-36, 36) * 5)
    )
    return Camera(position, yaw)


def _render_map(
    scene: Scene, labeller: CellLabeller, trail: list[Camera], viewer: Viewer
) -> tuple[NDArray[np.uint8], CellLabels]:
    map_view = viewer.top(scene, trail[-1], trail)
    frame = viewer.renderer.draw(scene, map_view.camera, *SIZE)
    return map_view.image, labeller.of_map(frame, map_view.camera)  # type: ignore[arg-type]


def _render_around(
    scene: Scene, labeller: CellLabeller, camera: Camera, renderer: Renderer
) -> tuple[NDArray[np.uint8], CellLabels]:
    image, _ = draw_around(renderer, scene, camera, SIZE)
    ahead = camera_ahead(camera, SIZE)
    parts = []
    for left in (0.0, -90.0, 90.0, 180.0):
        view = ahead.turned(left)
        parts.append(labeller.of_view(renderer.draw(scene, view, *cell_size(SIZE)), view, ahead))
    return image, join_directions(parts)


def write(out: Path, scans: list[Path], seed: int = 0) -> int:
    """Write the labelled images of some rooms; return their number.

    Writes pictures.npy (n, 224, 320, 3) uint8, classes.npy (n, 28, 40) uint8, targets.npy (n, 28, 40, 5) float16,
    kinds.npy (n,) uint8 indices of KINDS, and SHOWN_FILE.
    """
    count = len(scans) * (len(VIEWS_PER_VARIANT) + sum(VIEWS_PER_VARIANT))
    out.mkdir(parents=True, exist_ok=True)
    create = np.lib.format.open_memmap
    pictures = create(out / "pictures.npy", "w+", np.uint8, (count, *SHAPE))
    classes = create(out / "classes.npy", "w+", np.uint8, (count, CELLS[1], CELLS[0]))
    targets = create(out / "targets.npy", "w+", np.float16, (count, CELLS[1], CELLS[0], TARGETS))
    kinds = create(out / "kinds.npy", "w+", np.uint8, (count,))
    renderer = make_renderer()
    viewer = Viewer(renderer, SIZE, FIELD_DEGREES)
    count_written, lines = 0, []
    for number, scan in enumerate(scans):
        rng = np.random.default_rng((seed, number))
        for labelled_image in room_images(scan, rng, renderer, viewer):
            pictures[count_written] = resize(Image.fromarray(labelled_image.image))
            classes[count_written], targets[count_written] = (
                labelled_image.labels.classes,
                labelled_image.labels.targets,
            )
            kinds[count_written] = KINDS.index(labelled_image.kind)
            lines.append({"home": scan.stem, **labelled_image.description()})
            count_written += 1
    viewer.close()
    (out / SHOWN_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (out / "done").write_text(str(count_written))
    return count_written


def main() -> None:
    """Write the labelled images of each folder of rooms to a folder of the same name."""
    out, *folders = map(Path, sys.argv[1:])
    for folder in folders:
        part = out / folder.name
        if not (part / "done").is_file():
            print(folder.name, write(part, sorted(folder.glob("*.ply"))))


if __name__ == "__main__":
    main()
