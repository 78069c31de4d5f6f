"""Boxes are put on a mesh only where they fit it: with the shift that they need, not by chance."""

import numpy as np
import pytest
from factories.scans import as_scene, block, room, sampled

from render_agent.scene.stand_in.annotations import BoxedObject, SceneAnnotation
from render_agent.scene.stand_in.box_fit import fit_boxes

FURNITURE = [
    ((0.5, 0.5, 0.0), (1.1, 1.3, 0.9)),
    ((4.5, 0.4, 0.0), (5.4, 1.0, 0.5)),
    ((2.5, 2.0, 0.0), (3.5, 2.6, 0.75)),
    ((4.6, 3.1, 0.0), (5.1, 3.6, 1.8)),
    ((0.7, 3.0, 1.0), (1.3, 3.2, 1.4)),
]


def annotation(shift=(0.0, 0.0, 0.0), furniture=FURNITURE):
    """Return the boxes of the furniture as annotated in a frame that lies `shift` away."""
    things = []
    for low, high in furniture:
        low, high = np.array(low), np.array(high)
        things.append(BoxedObject((low + high) / 2 - shift, high - low, np.eye(3), "box"))
    return SceneAnnotation("scannet", "room", {}, 24.0, None, tuple(things))


@pytest.fixture(scope="module")
def scan():
    mesh = room(*(block(low, high) for low, high in FURNITURE))
    noise = np.random.default_rng(1).normal(0, 0.004, (80_000, 3))
    return as_scene(sampled(*mesh, 80_000) + noise)


def test_boxes_in_the_frame_of_the_mesh_need_no_shift(scan):
    fit = fit_boxes(scan, annotation())
    np.testing.assert_array_equal(fit.offset, 0)
    assert fit.passed
    assert fit.share == 1


def test_boxes_about_the_mean_of_the_vertices_are_put_back(scan):
    mean = scan.points.astype(float).mean(axis=0)
    fit = fit_boxes(scan, annotation(mean))
    np.testing.assert_allclose(fit.offset, mean)
    assert fit.passed


@pytest.mark.parametrize("shift", [(0.4, 0.0, 0.0), (0.0, 0.0, 0.3), (-9.0, 4.0, 0.0)])
def test_boxes_of_another_frame_do_not_pass(scan, shift):
    fit = fit_boxes(scan, annotation(shift))
    assert not fit.passed


def test_boxes_that_fit_everywhere_prove_nothing():
    random = np.random.default_rng(0)
    full = as_scene(random.uniform((-3, -3, 0), (9, 7, 3), (200_000, 3)))
    fit = fit_boxes(full, annotation())
    assert fit.share == 1
    assert not fit.passed


def test_without_boxes_there_is_no_fit(scan):
    assert fit_boxes(scan, annotation(furniture=[])) is None
