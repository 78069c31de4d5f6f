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
from render_agent.scans.room_ground_truth import RoomGroundTruth, read_ground_truth
from render_agent.scans.scene import Scene
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
    """A rendered image with its labels.

    Attributes:
        picture: (240, 320, 3) uint8.
        labelled: What its cells show.
        kind: One of KINDS.
        camera: The camera at that point.
        places: (boxes, 2) metres, positions of the objects in the map's frame.
        names: (boxes,) labels of the objects.
    """

    picture: NDArray[np.uint8]
    labelled: CellLabels
    kind: str
    camera: Camera
    places: NDArray[np.float64]
    names: Sequence[str]

    def told(self) -> dict[str, object]:
        """Return the image's line of the file SHOWN_FILE.

        `shown` has the positions, by name, of objects with enough pixels for the expert; `hidden` has the names of which
        no object does.
        """
        least = MIN_MAP_SHARE if self.kind == "top" else MIN_IMAGE_SHARE
        enough = self.labelled.pixels >= least * SIZE[0] * SIZE[1]
        shown: dict[str, list[list[float]]] = {}
        for number in np.flatnonzero(enough):
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
    upright = load_scene(scan)
    free = FreeSpace.of(upright).standing_places()
    names = [thing.label for thing in truth.objects]
    others = rng.permutation(np.arange(1, 8))
    for number, views in enumerate(VIEWS_PER_VARIANT):
        variant = 0 if not number else int(others[number - 1])
        scene, boxes, places = transform_room(
            upright, truth, free, variant % 4, mirrored=variant >= 4
        )
        labels = CellLabeller(scene, boxes, names)
        trail = [_pose(places, rng) for _ in range(int(rng.integers(1, 4)))]
        centres = labels.centres[:, :2]
        yield LabelledImage(
            *_render_map(scene, labels, trail, viewer), "top", trail[-1], centres, names
        )
        if views == 1:
            camera = _pose(places, rng)
            around = _render_around(scene, labels, camera, renderer)
            yield LabelledImage(*around, "around", camera, centres, names)
            continue
        for _ in range(views):
            camera = replace(_pose(places, rng), vertical_fov=viewer.vertical_fov)
            camera = camera.turned(up=float(rng.choice([0, 0, 0, -15, -30, 30])))
            frame = renderer.draw(scene, camera, *SIZE)
            labelled = labels.of_view(frame, camera, camera)
            yield LabelledImage(frame.colours, labelled, "ego", camera, centres, names)


def transform_room(
    scene: Scene,
    truth: RoomGroundTruth,
    places: NDArray[np.float64],
    quarters: int,
    *,
    mirrored: bool,
) -> tuple[Scene, list[OrientedBox], NDArray[np.float64]]:
    """Rotate a scene about the vertical axis.

    Args:
        scene: The scene; the lowest corner of its bounds stays fixed.
        truth: Its ground truth.
        places: Positions to transform, (n, 3) metres.
        quarters: Number of quarter turns.
        mirrored: Whether to mirror it along x first.

    Returns:
        The scene, the boxes of its objects, and the positions.
    """
    angle = np.pi / 2 * quarters
    turn = np.round(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    if mirrored:
        turn = turn @ np.diag([-1.0, 1.0, 1.0])
    corners = scene.bounds @ turn.T
    bounds = np.stack([corners.min(axis=0), corners.max(axis=0)])
    shift = scene.bounds[0] - bounds[0]
    points = (scene.points @ turn.T + shift).astype(np.float32)
    # the mirror image of a box is a box; keep its axes right-handed
    hands = np.array([[1.0], [1.0], [-1.0 if mirrored else 1.0]])
    boxes = [
        OrientedBox(turn @ thing.centre + shift, thing.size, thing.axes @ turn.T * hands)
        for thing in truth.objects
    ]
    return replace(scene, points=points, bounds=bounds + shift), boxes, places @ turn.T + shift


def _pose(places: NDArray[np.float64], rng: np.random.Generator) -> Camera:
    x, y, z = (float(value) for value in places[int(rng.integers(len(places)))])
    place: Vector = (x, y, z)
    yaw = (
        float(rng.choice([0, 90, 180, -90]))
        if rng.random() < 0.3
        else float(rng.integers(-36, 36) * 5)
    )
    return Camera(place, yaw)


def _render_map(
    scene: Scene, labels: CellLabeller, trail: list[Camera], viewer: Viewer
) -> tuple[NDArray[np.uint8], CellLabels]:
    picture = viewer.top(scene, trail[-1], trail)
    frame = viewer.renderer.draw(scene, picture.camera, *SIZE)
    return picture.image, labels.of_map(frame, picture.camera)  # type: ignore[arg-type]


def _render_around(
    scene: Scene, labels: CellLabeller, camera: Camera, renderer: Renderer
) -> tuple[NDArray[np.uint8], CellLabels]:
    picture, _ = draw_around(renderer, scene, camera, SIZE)
    ahead = camera_ahead(camera, SIZE)
    parts = []
    for left in (0.0, -90.0, 90.0, 180.0):
        view = ahead.turned(left)
        parts.append(labels.of_view(renderer.draw(scene, view, *cell_size(SIZE)), view, ahead))
    return picture, join_directions(parts)


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
    done, lines = 0, []
    for number, scan in enumerate(scans):
        rng = np.random.default_rng((seed, number))
        for image in room_images(scan, rng, renderer, viewer):
            pictures[done] = resize(Image.fromarray(image.picture))
            classes[done], targets[done] = image.labelled.classes, image.labelled.targets
            kinds[done] = KINDS.index(image.kind)
            lines.append({"home": scan.stem, **image.told()})
            done += 1
    viewer.close()
    (out / SHOWN_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (out / "done").write_text(str(done))
    return done


def main() -> None:
    """Write the labelled images of each folder of rooms to a folder of the same name."""
    out, *folders = map(Path, sys.argv[1:])
    for folder in folders:
        part = out / folder.name
        if not (part / "done").is_file():
            print(folder.name, write(part, sorted(folder.glob("*.ply"))))


if __name__ == "__main__":
    main()
