"""Exact measurements at places that a reply names: where they are, on which object, how far apart, at which angle.

A pixel's place is the surface that the renderer draws there: its depth is drawn again, which gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from render_agent.dialogue.reply import Place
from render_agent.dialogue.view import View
from render_agent.dialogue.wording import Wording
from render_agent.render.around import cell_at, direction_of
from render_agent.render.projection import points_under
from render_agent.render.viewer import Viewer
from render_agent.render.visibility.box_surfaces import MARGIN_METRES
from render_agent.scans.boxes import OrientedBox, distance
from render_agent.scans.camera import AnyCamera, Camera, FloatArray, MapCamera, wrapped
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts, placed
from render_agent.views.scene_graph import level_size

PROBE_PIXELS = 33
"""Pixels across of the small map by which the uppermost surface at a point is found; its middle one counts."""

PROBE_METRES_PER_PIXEL = 0.02

BEYOND_METRES = 1.0
"""So far out of the room's bounds a point may be named: what is scanned may lie beyond them."""


class Thing(NamedTuple):
    """An object: its category, and its box in the scene's frame."""

    label: str
    box: OrientedBox


class Hit(NamedTuple):
    """A place that was found: its point, (3,) metres, world frame, and the object that it is on, if any."""

    point: FloatArray
    thing: Thing | None


def measured(
    places: Sequence[Place],
    views: Mapping[int, View],
    stands: Camera,
    scene: Scene,
    facts: Facts | None,
    viewer: Viewer,
    wording: Wording,
) -> str:
    """Return the text of the measurements at some places.

    views: those that were shown, by number. stands: where the camera is, which tells the storey of points of the
    map. facts: what is known of the scene, None where nothing is. RenderError where it cannot be drawn.
    """
    known = things_of(facts, scene)
    hits: dict[int, Hit] = {}
    words = []
    for number, place in enumerate(places, 1):
        found = point_at(place, views, stands, scene, viewer, wording)
        if not isinstance(found, str):
            hits[number] = Hit(found, thing_at(found, known))
            found = _hit_text(hits[number], known, wording)
        words.append(wording("measurement.place", number=number, found=found))
    if 1 in hits:
        words += _from_first(hits, wording)
    elif len(places) > 1:
        words.append(wording("measurement.first_not_found"))
    return " ".join(words)


def things_of(facts: Facts | None, scene: Scene) -> list[Thing]:
    """Return the objects of a scene in its own frame."""
    boxes = {} if facts is None else placed(facts, scene).boxes
    return [Thing(label, box) for label, some in boxes.items() for box in some]


def thing_at(point: FloatArray, things: Sequence[Thing]) -> Thing | None:
    """Return the object on which a point, (3,) metres, lies: the smallest whose box holds it."""
    holding = [
        thing
        for thing in things
        if (np.abs(thing.box.local(point[None])[0]) <= thing.box.size / 2 + MARGIN_METRES).all()
    ]
    return min(holding, key=lambda thing: float(thing.box.size.prod()), default=None)


def point_at(
    place: Place,
    views: Mapping[int, View],
    stands: Camera,
    scene: Scene,
    viewer: Viewer,
    wording: Wording,
) -> FloatArray | str:
    """Return the point of a place, (3,) metres, world frame, or why there is none."""
    if place.view is None:
        low, high = scene.bounds + np.array([[-BEYOND_METRES], [BEYOND_METRES]])
        point = [value for value in (place.x, place.y, place.z) if value is not None]
        if not all(a <= value <= b for a, value, b in zip(low, point, high, strict=False)):
            named = f"[{', '.join(f'{value:g}' for value in point)}]"
            return wording("measurement.outside", point=named)
        if place.z is not None:
            return np.array([place.x, place.y, place.z])
        cut = viewer.map_camera(scene, stands).height
        above = MapCamera((place.x, place.y), cut, PROBE_METRES_PER_PIXEL)
        middle = PROBE_PIXELS // 2
        hit = surface_point(scene, above, (PROBE_PIXELS, PROBE_PIXELS), (middle, middle), viewer)
        named = f"[{place.x:.2f}, {place.y:.2f}]"
        return wording("measurement.nothing_at_point", point=named) if hit is None else hit
    if (view := views.get(place.view)) is None:
        return wording("measurement.no_such_view", view=place.view, last=len(views) - 1)
    (width, height), pixel = viewer.size, (math.floor(place.x), math.floor(place.y))
    values = {"x": f"{place.x:g}", "y": f"{place.y:g}", "view": place.view}
    if not (0 <= pixel[0] < width and 0 <= pixel[1] < height):
        return wording("measurement.out_of_view", width=width, height=height, **values)
    where = camera_under(view, pixel, viewer.size)
    if where is None:
        return wording("measurement.between_directions", **values)
    hit = surface_point(scene, *where, viewer)
    return wording("measurement.nothing_at_pixel", **values) if hit is None else hit


def camera_under(
    view: View, pixel: tuple[int, int], size: tuple[int, int]
) -> tuple[AnyCamera, tuple[int, int], tuple[int, int]] | None:
    """Return the camera of the part of a view in which a pixel lies, that part's size, and the pixel in it.

    None if it lies between the four directions of `around`.
    """
    if view.kind == "around" and isinstance(view.camera, Camera):
        if (cell := cell_at(pixel, size)) is None:
            return None
        return direction_of(view.camera, size, cell.number), cell.size, cell.pixel
    return view.camera, size, pixel


def surface_point(
    scene: Scene, camera: AnyCamera, size: tuple[int, int], pixel: tuple[int, int], viewer: Viewer
) -> FloatArray | None:
    """Return the point of the surface under a pixel (column, row), (3,) metres; None where nothing is."""
    u, v = pixel
    depth = float(viewer.renderer.draw(scene, camera, *size).depth[v, u])
    if not math.isfinite(depth):
        return None
    point: FloatArray = points_under(camera, np.array([u]), np.array([v]), np.array([depth]), size)[
        0
    ]
    return point


def _hit_text(hit: Hit, known: Sequence[Thing], wording: Wording) -> str:
    at = _point_text(hit.point)
    if hit.thing is None:
        return wording("measurement.on_no_object", point=at) if known else at
    box = hit.thing.box
    along, across, height = (f"{metres:.2f}" for metres in level_size(box)[0])
    return wording(
        "measurement.on_object",
        point=at,
        object=hit.thing.label,
        centre=_point_text(box.centre),
        along=along,
        across=across,
        height=height,
    )


def _from_first(hits: Mapping[int, Hit], wording: Wording) -> list[str]:
    """Return the distances from the first place, and from the third place on the angles at it."""
    first, words = hits[1], []
    for number, hit in hits.items():
        if number == 1:
            continue
        metres = f"{math.dist(first.point, hit.point):.2f}"
        told = wording("measurement.distance", number=number, metres=metres)
        if first.thing and hit.thing and first.thing is not hit.thing:
            gap = f"{distance(first.thing.box, hit.thing.box):.2f}"
            told = wording("measurement.gap", distance=told, metres=gap)
        if number > 2 and 2 in hits:
            angle = _angle([first.point, hits[2].point, hit.point], wording)
            told = wording("measurement.angle", distances=told, angle=angle)
            three = [each.thing for each in (first, hits[2], hit)]
            if all(three) and len({id(thing) for thing in three}) == 3:
                angle = _angle([thing.box.centre for thing in three if thing], wording)
                told = wording("measurement.centres_angle", angles=told, angle=angle)
        words.append(f"{told}.")
    return words


def _angle(points: Sequence[FloatArray], wording: Wording) -> str:
    """Return the angle at the first point from the second to the third, seen from above, in words."""
    here, ahead, there = (point[:2] for point in points)
    yaws = [math.degrees(math.atan2(*(end - here)[::-1])) for end in (ahead, there)]
    degrees = wrapped(yaws[1] - yaws[0])
    side = "left" if degrees > 0 else "right"
    return wording(f"measurement.{side}", degrees=f"{abs(degrees):.0f}")


def _point_text(point: FloatArray) -> str:
    return f"[{', '.join(f'{value:.2f}' for value in point + 0.0)}]"
