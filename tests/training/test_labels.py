"""Perception labels match the image: in views, in maps, and in rotated and mirrored rooms."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import mostly_slow
from factories.scenes import BLUE, GREEN, RED, room

from render_agent.render.around import camera_ahead
from render_agent.render.make_renderer import make_renderer
from render_agent.render.viewer import Viewer
from render_agent.scans.boxes import upright_box
from render_agent.scans.camera import Camera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
from render_agent.tasks.rooms import BUNDLED
from training.labels import CELLS, SIZE, CellLabeller
from training.perception_images import (
    FIELD_DEGREES,
    KINDS,
    VIEWS_PER_VARIANT,
    _render_around,
    room_images,
    transform_room,
)
from training.phrases import LABELS

NAMES = LABELS[3], LABELS[10], LABELS[20]
COLOURS = dict(zip(NAMES, (RED, GREEN, BLUE), strict=True))
# The red, the green and the blue box of the synthetic room.
BOXES = [
    upright_box((4, 0.3, 0), (4.6, 1, 0.8)),
    upright_box((0.3, 3, 0), (1, 3.7, 1.2)),
    upright_box((3.9, 3.1, 0), (4.7, 3.8, 0.5)),
]

WIDTH, HEIGHT = SIZE
PIXELS = WIDTH / CELLS[0], HEIGHT / CELLS[1]  # pixels per cell, across and down

UNIT = 0.004  # metres, half the spacing of float16 values below 8


@pytest.fixture(scope="module")
def viewer():
    viewer = Viewer(make_renderer(), SIZE, FIELD_DEGREES)
    yield viewer
    viewer.close()


@pytest.fixture(scope="module")
def scene():
    points, colours, faces = room()
    bounds = np.array([points.min(axis=0), points.max(axis=0)], np.float64)
    return Scene("made", points, colours, faces, 0.0, 2.5, bounds)


@pytest.fixture(scope="module")
def labeller(scene):
    return CellLabeller(scene, BOXES, NAMES)


def class_of(name):
    return LABELS.index(name) + 1


def cell_centres():
    """Return the centre pixel of every cell, (28, 40, 2) across and down."""
    across = (np.arange(CELLS[0]) + 0.5) * PIXELS[0]
    down = (np.arange(CELLS[1]) + 0.5) * PIXELS[1]
    return np.stack(np.meshgrid(across, down), axis=-1)


def has_colour(image, colour):
    """Return the mask of cells whose centre pixel has a colour."""
    across, down = np.moveaxis(cell_centres().astype(int), -1, 0)
    return (image[down, across] == colour).all(axis=-1)


def interior(cells):
    """Return the mask of cells whose eight neighbours are marked too."""
    padded = np.pad(cells, 1)
    return np.all(
        [np.roll(padded, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=0
    )[1:-1, 1:-1]


def check_labels(image, labels, name):
    """Check the label cells of an object against the pixels of its colour, except at edges; return the cells."""
    shown, labelled = has_colour(image, COLOURS[name]), labels.classes == class_of(name)
    assert labelled[interior(shown)].all()
    assert shown[interior(labelled)].all()
    assert interior(shown).any()
    return labelled


def view(viewer, scene, labeller, camera):
    camera = replace(camera, vertical_fov=viewer.vertical_fov)
    frame = viewer.renderer.draw(scene, camera, *SIZE)
    return frame.colours, labeller.of_view(frame, camera, camera)


@pytest.mark.parametrize("pitch", [0.0, -15.0, -30.0])
def test_box_on_the_left_has_targets_ahead_and_left(viewer, scene, labeller, pitch):
    """The camera looks along -y, so +x is to its left: the red box is 1.3 m left and 2.15 m ahead."""
    image, labels = view(viewer, scene, labeller, Camera((3.0, 2.8, 1.4), -90.0, pitch))
    red = check_labels(image, labels, NAMES[0])
    assert np.flatnonzero(red.any(axis=0)).max() < CELLS[0] // 2
    targets = labels.targets[red]
    np.testing.assert_allclose(targets[:, :2], [[2.15, 1.3]] * len(targets), atol=UNIT)
    np.testing.assert_allclose(targets[:, 2], 0.8, atol=UNIT)
    cell_positions = labels.targets[interior(red)][:, 3:].astype(float)
    assert (np.abs(cell_positions - (2.15, 1.3)) < (0.35 + 0.1, 0.3 + 0.1)).all()
    assert set(np.unique(labels.classes)) == {0, class_of(NAMES[0])}
    assert np.isnan(labels.targets[labels.classes == 0][:, :3]).all()
    assert np.isfinite(labels.targets[..., 3:]).all()


def test_map_targets_are_box_centres_in_the_map_frame(viewer, scene, labeller):
    map_view = viewer.top(scene, Camera((2.0, 2.0, 1.4)))
    frame = viewer.renderer.draw(scene, map_view.camera, *SIZE)
    labels = labeller.of_map(frame, map_view.camera)
    for name, box in zip(NAMES, BOXES, strict=True):
        cells = check_labels(frame.colours, labels, name)
        targets = labels.targets[cells].astype(float)
        np.testing.assert_allclose(targets[:, :2], [box.centre[:2]] * len(targets), atol=UNIT)
        np.testing.assert_allclose(targets[:, 2], box.size.max(), atol=UNIT)
        places = np.argwhere(cells)[:, ::-1] + 0.5
        (middle,), _ = map_view.camera.project(box.centre[None], *SIZE)
        np.testing.assert_allclose(places.mean(axis=0) * PIXELS, middle, atol=PIXELS[0] / 2)
    cell_positions = labels.targets[..., 3:].reshape(-1, 2).astype(float)
    pixels, _ = map_view.camera.project(
        np.column_stack([cell_positions, np.zeros(len(cell_positions))]), *SIZE
    )
    # the position of a cell is that of the pixel at its centre
    assert np.abs(pixels - cell_centres().reshape(-1, 2)).max() < 1.0


@pytest.fixture(scope="module")
def home():
    scan = BUNDLED / "room00.ply"
    return load_scene(scan), read_ground_truth(scan.with_suffix(".json"))


@pytest.mark.parametrize("variant", mostly_slow(range(8), 0, 3, 6))
def test_transformed_rooms_keep_image_and_labels_consistent(viewer, home, variant):
    """Positions move the same way in the image and in its labels."""
    upright_scene, truth = home
    names = [entry.label for entry in truth.objects]
    centres = np.array([entry.centre for entry in truth.objects])
    results = []
    for number in (0, variant):
        scene, boxes, places = transform_room(
            upright_scene, truth, centres, number % 4, mirrored=number >= 4
        )
        np.testing.assert_allclose(places, [box.centre for box in boxes], atol=1e-9)
        camera = viewer.top(scene, None).camera
        frame = viewer.renderer.draw(scene, camera, *SIZE)
        labels = CellLabeller(scene, boxes, names).of_map(frame, camera)
        pixels, _ = camera.project(places, *SIZE)
        cells = tuple((pixels / PIXELS).astype(int).T[::-1])
        across, down = pixels.astype(int).T
        results.append((labels, cells, frame.colours[down, across].astype(int)))
    (original, cells, colours), (transformed, new_cells, new_colours) = results
    expected = [class_of(name) for name in names]
    # small objects may miss the cell of their centre, and edges may miss its pixel
    assert (original.classes[cells] == transformed.classes[new_cells]).mean() > 0.85
    assert (np.abs(colours - new_colours).max(axis=1) < 24).mean() > 0.7
    # the centres of other objects are occluded
    is_visible = transformed.classes[new_cells] == expected
    assert is_visible.sum() >= 10
    assert (is_visible == (original.classes[cells] == expected)).mean() > 0.85
    is_unique = is_visible & np.array([names.count(name) == 1 for name in names])
    assert is_unique.sum() >= 5
    errors = transformed.targets[new_cells][is_unique][:, :2] - places[is_unique][:, :2]
    assert np.abs(errors).max() < UNIT


@pytest.mark.slow
def test_room_images_cover_all_kinds_and_are_reproducible(viewer):
    scan = BUNDLED / "room00.ply"
    passes = [
        [*room_images(scan, np.random.default_rng(5), viewer.renderer, viewer)] for _ in range(2)
    ]
    kinds = [image.kind for image in passes[0]]
    assert len(kinds) == len(VIEWS_PER_VARIANT) + sum(VIEWS_PER_VARIANT)
    assert set(kinds) == set(KINDS)
    for image, repeated in zip(*passes, strict=True):
        assert image.image.shape == (HEIGHT, WIDTH, 3)
        assert np.array_equal(image.image, repeated.image)
        assert np.array_equal(image.labels.classes, repeated.labels.classes)
        assert np.array_equal(image.labels.targets, repeated.labels.targets, equal_nan=True)
        assert image.description() == repeated.description()
        description = image.description()
        assert description["shown"].keys().isdisjoint(description["hidden"])
        assert {*description["shown"], *description["hidden"]} == set(image.names)
        for name, places in description["shown"].items():
            labelled_places = [
                place
                for place, label in zip(image.places, image.names, strict=True)
                if label == name
            ]
            assert all(any(np.array_equal(place, p) for p in labelled_places) for place in places)
    num_with_objects = sum(int((image.labels.classes > 0).any()) for image in passes[0])
    assert num_with_objects >= len(kinds) - 2


def test_around_targets_use_the_frame_of_the_view_ahead(viewer, scene, labeller):
    camera = Camera((2.0, 2.0, 1.4), 0.0)
    image, labels = _render_around(scene, labeller, camera, viewer.renderer)
    assert camera_ahead(camera, SIZE).position == camera.position
    for name, box in zip(NAMES, BOXES, strict=True):
        cells = check_labels(image, labels, name)
        # looking along +x, ahead is +x and left is +y
        expected = box.centre[:2] - (2.0, 2.0)
        np.testing.assert_allclose(
            labels.targets[cells][:, :2], [expected] * int(cells.sum()), atol=UNIT
        )
        offsets = labels.targets[cells][:, 3:].astype(float) - expected
        assert (np.abs(offsets) < box.size[:2] / 2 + 0.1).all()
