"""Measurements at places named in a reply: positions, objects, distances and angles.

A pixel stands for the surface point rendered there. Depth is rendered again for this, with the same result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.chat import View
from render_agent.dialogue.reply import Place
from render_agent.dialogue.wording import Wording
from render_agent.render.around import cell_at, direction_of
from render_agent.render.projection import points_under
from render_agent.render.renderer import without_colours
from render_agent.render.viewer import Viewer
from render_agent.scans.boxes import OrientedBox, distance, level_size
from render_agent.scans.camera import (
    AnyCamera,
    Camera,
    FloatArray,
    MapCamera,
    Vector,
    wrap_degrees,
)
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts, place_facts
from render_agent.visibility.box_surfaces import (
    MARGIN_METRES,
    BoxSurfaces,
    nearest_piece,
)
from render_agent.visibility.meter import EXACT, Meter
from render_agent.visibility.object_visibility import viewpoint

# The small map that finds the topmost surface at a point; only its centre pixel is read.
PROBE_PIXELS, PROBE_METRES_PER_PIXEL = 33, 0.02
# Tolerance for points outside the room's bounds, because scans may extend beyond them.
BEYOND_METRES = 1.0


class SceneObject(NamedTuple):
    """An object: its category, and its box in the frame of the scene."""

    label: str
    box: OrientedBox


class ScenePoint(NamedTuple):
    point: FloatArray  # (3,) metres, world frame
    seen_from: Vector  # position of the camera that sees it, (3,) metres, world frame
    piece: int | None = None  # index of the face (mesh) or point (cloud) drawn there, if known


class Hit(NamedTuple):
    """A measured place: its point, (3,) metres, world frame, and the object there, if any."""

    point: FloatArray
    thing: SceneObject | None


class Measurement(NamedTuple):
    """The results of a measurement as text and as data, as the meter read them."""

    text: str
    points: tuple[Vector, ...]  # exact point of each place that was found, metres, world frame
    distances: tuple[float, ...]
    """Metres from the first place to each other one; between the closest points of their objects, if both are on objects."""
    sizes: tuple[float, ...]  # longest side, in metres, of the box of each object that was hit


def measure_places(
    places: Sequence[Place],
    views: Mapping[int, View],
    stands: Camera,
    scene: Scene,
    facts: Facts | None,  # ground-truth facts of the scene; None if unknown
    viewer: Viewer,
    wording: Wording,
    meter: Meter = EXACT,
) -> Measurement:
    """Measure places."""
    objects = scene_objects(facts, scene)
    results = {
        number: point_at(place, views, stands, scene, viewer, wording)
        for number, place in enumerate(places, 1)
    }
    spots = {number: spot for number, spot in results.items() if isinstance(spot, ScenePoint)}
    owners = objects_at(list(spots.values()), objects, scene)
    hits = {
        number: Hit(spot.point, scene_object)
        for (number, spot), scene_object in zip(spots.items(), owners, strict=True)
    }
    read_point = partial(meter.point, origin=stands.position)
    words: list[str] = []
    sizes: list[float] = []
    distances: list[float] = []
    for number, result in results.items():
        text = result
        if not isinstance(result, str):
            hit = hits[number]
            size = _read_size(hit, meter)
            sizes += [max(size)] if size else []
            text = _hit_text(hit, size, objects, wording, read_point)
        words.append(wording("measurement.place", number=number, found=text))
    if 1 in hits:
        sentences, distances = _from_first(hits, wording, meter)
        words += sentences
    elif len(places) > 1:
        words.append(wording("measurement.first_not_found"))
    points = tuple(
        (float(x), float(y), float(z)) for x, y, z in (hit.point for hit in hits.values())
    )
    return Measurement(" ".join(words), points, tuple(distances), tuple(sizes))


def scene_objects(facts: Facts | None, scene: Scene) -> list[SceneObject]:
    """Return the objects of a scene in the frame of the scene."""
    boxes = {} if facts is None else place_facts(facts, scene).boxes
    return [
        SceneObject(label, box) for label, category_boxes in boxes.items() for box in category_boxes
    ]


def objects_at(
    spots: Sequence[ScenePoint], objects: Sequence[SceneObject], scene: Scene
) -> list[SceneObject | None]:
    """Return the object at each point; None for a point that belongs to no object.

    As for visibility, `box_surfaces` decides which surface belongs to an object, so the floor under a table and the
    wall behind a shelf belong to none. A point without surface belongs to the smallest object whose box contains it.
    """
    inside = _boxes_around_points(spots, objects)
    relevant = np.flatnonzero(inside.any(axis=0))
    if not len(relevant):
        return [None] * len(spots)
    volumes = np.array([scene_object.box.size.prod() for scene_object in objects])
    numbers = np.where(inside, volumes, np.inf).argmin(axis=1)
    numbers[~inside.any(axis=1)] = -1
    surfaces = BoxSurfaces.of(scene, [objects[int(number)].box for number in relevant])
    pieces_from: dict[Vector, list[tuple[int, int]]] = {}
    for index in map(int, np.flatnonzero(inside.any(axis=1))):
        spot = spots[index]
        piece = nearest_piece(scene, spot.point) if spot.piece is None else spot.piece
        if piece is not None:
            pieces_from.setdefault(spot.seen_from, []).append((index, piece))
    for position, pairs in pieces_from.items():
        indices, pieces = np.array(pairs).T
        owners = surfaces.owners(pieces, position)
        numbers[indices] = np.where(owners < 0, -1, relevant[owners])
    return [None if number < 0 else objects[number] for number in numbers]


def _boxes_around_points(
    spots: Sequence[ScenePoint], objects: Sequence[SceneObject]
) -> NDArray[np.bool_]:
    """Return which points are in which object's box, (points, objects)."""
    points = np.array([spot.point for spot in spots]).reshape(-1, 3)
    inside = np.zeros((len(spots), len(objects)), bool)
    for number, scene_object in enumerate(objects):
        limits = scene_object.box.size / 2 + MARGIN_METRES
        inside[:, number] = (np.abs(scene_object.box.local(points)) <= limits).all(axis=1)
    return inside


def point_at(
    place: Place,
    views: Mapping[int, View],
    stands: Camera,
    scene: Scene,
    viewer: Viewer,
    wording: Wording,
) -> ScenePoint | str:
    """Return the point that a place refers to, or the reason why there is none."""
    if place.view is None:
        low, high = scene.bounds + np.array([[-BEYOND_METRES], [BEYOND_METRES]])
        point = [value for value in (place.x, place.y, place.z) if value is not None]
        if not all(a <= value <= b for a, value, b in zip(low, point, high, strict=False)):
            point_text = f"[{', '.join(f'{value:g}' for value in point)}]"
            return wording("measurement.outside", point=point_text)
        if place.z is not None:
            return ScenePoint(np.array([place.x, place.y, place.z]), stands.position)
        cut_height = viewer.map_camera(scene, stands).height
        above = MapCamera((place.x, place.y), cut_height, PROBE_METRES_PER_PIXEL)
        middle = PROBE_PIXELS // 2
        hit = surface_spot(scene, above, (PROBE_PIXELS, PROBE_PIXELS), (middle, middle), viewer)
        point_text = f"[{place.x:.2f}, {place.y:.2f}]"
        return wording("measurement.nothing_at_point", point=point_text) if hit is None else hit
    if (view := views.get(place.view)) is None:
        return wording("measurement.no_such_view", view=place.view, last=len(views) - 1)
    if view.camera is None:
        return wording("measurement.of_target", view=place.view)
    (width, height), pixel = viewer.size, (math.floor(place.x), math.floor(place.y))
    values = {"x": f"{place.x:g}", "y": f"{place.y:g}", "view": place.view}
    if not (0 <= pixel[0] < width and 0 <= pixel[1] < height):
        return wording("measurement.out_of_view", width=width, height=height, **values)
    part = camera_under(view, pixel, viewer.size)
    if part is None:
        return wording("measurement.between_directions", **values)
    hit = surface_spot(scene, *part, viewer)
    return wording("measurement.nothing_at_pixel", **values) if hit is None else hit


def camera_under(
    view: View, pixel: tuple[int, int], size: tuple[int, int]
) -> tuple[AnyCamera, tuple[int, int], tuple[int, int]] | None:
    """Return the camera, image size and pixel of the part of a view that contains a pixel.

    `around` views have four parts; the result is None if the pixel is between them.
    """
    if view.kind == "around" and isinstance(view.camera, Camera):
        if (cell := cell_at(pixel, size)) is None:
            return None
        return direction_of(view.camera, size, cell.number), cell.size, cell.pixel
    assert view.camera is not None, "targets cannot be measured"
    return view.camera, size, pixel


def surface_spot(
    scene: Scene, camera: AnyCamera, size: tuple[int, int], pixel: tuple[int, int], viewer: Viewer
) -> ScenePoint | None:
    """Return the surface point under a pixel (column, row); None if nothing was scanned there."""
    u, v = pixel
    frame = without_colours(viewer.renderer).draw(scene, camera, *size)
    depth = float(frame.depth[v, u])
    if not math.isfinite(depth):
        return None
    point = points_under(camera, np.array([u]), np.array([v]), np.array([depth]), size)[0]
    piece = None if frame.primitive is None else int(frame.primitive[v, u])
    return ScenePoint(point, viewpoint(camera), piece)


def _read_size(hit: Hit, meter: Meter) -> list[float]:
    """Return the size of the box of the object at a place, rounded as in the text; empty without an object."""
    sizes = () if hit.thing is None else level_size(hit.thing.box)[0]
    return [round(meter.length(float(metres)), 2) for metres in sizes]


def _hit_text(
    hit: Hit,
    size: Sequence[float],
    objects: Sequence[SceneObject],
    wording: Wording,
    read_point: Callable[[FloatArray], FloatArray],
) -> str:
    at = _point_text(read_point(hit.point))
    if hit.thing is None:
        return wording("measurement.on_no_object", point=at) if objects else at
    along, across, height = (f"{metres:.2f}" for metres in size)
    return wording(
        "measurement.on_object",
        point=at,
        object=hit.thing.label,
        centre=_point_text(read_point(hit.thing.box.centre)),
        along=along,
        across=across,
        height=height,
    )


def _from_first(
    hits: Mapping[int, Hit], wording: Wording, meter: Meter
) -> tuple[list[str], list[float]]:
    """Return the distances from the first place as text and in metres. From the third place on, the text has the angles
    at the first place.
    """
    origin, words, distances = hits[1], [], []
    for number, hit in hits.items():
        if number == 1:
            continue
        metres = round(meter.length(math.dist(origin.point, hit.point)), 2)
        sentence = wording("measurement.distance", number=number, metres=f"{metres:.2f}")
        if origin.thing and hit.thing and origin.thing is not hit.thing:
            metres = round(meter.length(distance(origin.thing.box, hit.thing.box)), 2)
            sentence = wording("measurement.gap", distance=sentence, metres=f"{metres:.2f}")
        distances.append(metres)
        if number > 2 and 2 in hits:
            angle = _angle([origin.point, hits[2].point, hit.point], wording, meter)
            sentence = wording("measurement.angle", distances=sentence, angle=angle)
            triple = [entry.thing for entry in (origin, hits[2], hit)]
            if all(triple) and len({id(thing) for thing in triple}) == 3:
                centres = [thing.box.centre for thing in triple if thing]
                angle = _angle(centres, wording, meter)
                sentence = wording("measurement.centres_angle", angles=sentence, angle=angle)
        words.append(f"{sentence}.")
    return words, distances


def _angle(points: Sequence[FloatArray], wording: Wording, meter: Meter) -> str:
    """Return the angle at the first point between the second and the third, seen from above, as text."""
    vertex, first_end, second_end = (point[:2] for point in points)
    yaws = [math.degrees(math.atan2(*(end - vertex)[::-1])) for end in (first_end, second_end)]
    degrees = wrap_degrees(meter.angle(wrap_degrees(yaws[1] - yaws[0])))
    side = "left" if degrees > 0 else "right"
    return wording(f"measurement.{side}", degrees=f"{abs(degrees):.0f}")


def _point_text(point: FloatArray) -> str:
    return f"[{', '.join(f'{value:.2f}' for value in point + 0.0)}]"
