"""Draws the camera's path on a map: a field-of-view wedge and a number at every stop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from PIL import Image, ImageDraw

from render_agent.render.map_view.overlay import (
    HERE,
    INK,
    OLD,
    PAPER,
    RECENT,
    SMOOTH,
    Colour,
    Pixel,
    PlotArea,
    font,
    unit,
    write,
)

# Sizes of a stop's disc and wedge in pixels of a 640×480 image; HERE is the current stop.
RADIUS_PIXELS, RADIUS_HERE_PIXELS = 8.5, 11.0
WEDGE_PIXELS, WEDGE_HERE_PIXELS = 27.0, 56.0


@dataclass(frozen=True, slots=True)
class MapPose:
    """A pose on the map: its number, pixel and viewing direction (degrees, 0 is right, 90 is up)."""

    number: int
    place: Pixel
    yaw: float
    field_of_view: float


@dataclass(slots=True)
class Mark:
    """The disc with the numbers of all stops at one place. It is moved aside if the place is crowded."""

    stops: list[MapPose]
    last: bool
    scale: float
    spot: Pixel = field(init=False)

    def __post_init__(self) -> None:
        self.spot = self.place

    @property
    def place(self) -> Pixel:
        """Pixel of the newest stop."""
        return self.stops[-1].place

    @property
    def label(self) -> str:
        """Numbers of the stops, with runs of three or more abbreviated."""
        return ",".join(_runs([stop.number for stop in self.stops]))

    @property
    def text_pixels(self) -> float:
        """Text height in pixels."""
        return (15 if self.last else 13) * self.scale

    @property
    def half(self) -> tuple[float, float]:
        """Half the width and height in pixels."""
        radius = (RADIUS_HERE_PIXELS if self.last else RADIUS_PIXELS) * self.scale
        return max(
            radius, font(round(self.text_pixels)).getlength(self.label) / 2 + 0.55 * radius
        ), radius

    def box(self, spot: Pixel) -> tuple[float, float, float, float]:
        """Return the bounding box of the mark if it is drawn at `spot`."""
        (u, v), (wide, high) = spot, self.half
        return u - wide, v - high, u + wide, v + high


def draw_trail(image: Image.Image, plot: PlotArea, stops: Sequence[MapPose]) -> None:
    """Draw the stops, oldest first, into the plot of a map; the last one is the current pose."""
    if not stops:
        return
    marks = arrange_marks(stops, plot, unit(*image.size))
    part, corner = plot.crop(image)
    layer = Image.new("RGBA", (part.width * SMOOTH, part.height * SMOOTH), (*PAPER, 0))
    _Shapes(layer, corner, unit(*image.size)).draw(stops, marks)
    part = Image.alpha_composite(part.convert("RGBA"), layer.reduce(SMOOTH)).convert("RGB")
    for mark in marks:
        position = mark.spot[0] - corner[0], mark.spot[1] - corner[1]
        pale = not mark.last and _brightness(_shade(mark.stops[-1], stops)) > 150
        write(part, position, mark.label, mark.text_pixels, fill=INK if pale else PAPER, edge=None)
    image.paste(part, corner)


def _runs(numbers: Sequence[int]) -> Iterator[str]:
    start = 0
    for end in range(1, len(numbers) + 1):
        if end < len(numbers) and numbers[end] == numbers[end - 1] + 1:
            continue
        run = numbers[start:end]
        yield from (f"{run[0]}-{run[-1]}",) if len(run) > 2 else map(str, run)
        start = end


def _group_stops(stops: Sequence[MapPose], scale: float) -> list[Mark]:
    """Return one mark per place, newest first."""
    marks: list[Mark] = []
    for stop in reversed(stops):
        near = (m for m in marks if math.dist(m.place, stop.place) < 0.5 * RADIUS_PIXELS * scale)
        mark = next(near, None)
        if mark is None:
            marks.append(Mark([stop], stop is stops[-1], scale))
        else:
            mark.stops.insert(0, stop)
    return marks


def arrange_marks(stops: Sequence[MapPose], plot: PlotArea, scale: float) -> list[Mark]:
    """Return the marks of all stops, newest first, each at its place or at a free spot nearby.

    The newest mark stays at its place. A spot must be closer to the mark's own place than to any other, to avoid
    ambiguity. If there is no free spot, the mark stays at its place. `scale` is the result of `unit`.
    """
    marks = _group_stops(stops, scale)
    inside = (plot.left, plot.top, plot.right, plot.bottom)
    for index, mark in enumerate(marks[1:], 1):
        obstacles = [earlier.box(earlier.spot) for earlier in marks[:index]]
        places = [earlier.place for earlier in marks if earlier is not mark]
        boxes = obstacles + [(*place, *place) for place in places]
        free = (
            spot
            for spot in _spots(mark)
            if _contains(inside, mark.box(spot))
            and not any(_overlap(mark.box(spot), box) for box in boxes)
            and all(math.dist(spot, mark.place) < math.dist(spot, place) for place in places)
        )
        mark.spot = next(free, mark.place)
    return marks


def _spots(mark: Mark) -> Iterator[Pixel]:
    """Yield candidate spots for a mark: its place, then around it, starting behind the camera."""
    u, v = mark.place
    yield u, v
    back = mark.stops[-1].yaw + 180
    for distance in (1.8, 2.4, 3.2, 4.2, 5.4):
        for turn in (0, 30, -30, 60, -60, 90, -90, 120, -120, 150, -150, 180):
            angle, reach = math.radians(back + turn), distance * RADIUS_PIXELS * mark.scale
            yield u + reach * math.cos(angle), v - reach * math.sin(angle)


Box = tuple[float, float, float, float]


def _contains(outer: Box, box: Box) -> bool:
    return box[0] >= outer[0] and box[1] >= outer[1] and box[2] <= outer[2] and box[3] <= outer[3]


def _overlap(box: Box, other_box: Box) -> bool:
    return (
        box[0] < other_box[2]
        and other_box[0] < box[2]
        and box[1] < other_box[3]
        and other_box[1] < box[3]
    )


def _shade(stop: MapPose, stops: Sequence[MapPose]) -> Colour:
    """Return the colour of a stop: lighter for older stops, and a separate one for the last."""
    if stop is stops[-1]:
        return HERE
    age = (stops[-1].number - stop.number - 1) / max(stops[-1].number - stops[0].number - 1, 1)
    red, green, blue = (
        round(new + (old - new) * age) for new, old in zip(RECENT, OLD, strict=True)
    )
    return red, green, blue


def _brightness(colour: Colour) -> float:
    """Return the luma of a colour, 0 to 255 (ITU-R BT.601)."""
    red, green, blue = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue


class _Shapes:
    """Draws wedges, path and discs on a layer that is SMOOTH times larger and starts at a given pixel."""

    def __init__(self, layer: Image.Image, corner: tuple[int, int], scale: float) -> None:
        self.pen = ImageDraw.Draw(layer)
        self.corner = corner
        self.scale = scale * SMOOTH

    def draw(self, stops: Sequence[MapPose], marks: Sequence[Mark]) -> None:
        """Draw the wedges, then the path, then the outlines, then the discs."""
        for stop in stops:
            self.pen.polygon(self.wedge(stop, stops), fill=(*_shade(stop, stops), 90))
        if len(stops) > 1:
            self.line([self.to_layer(stop.place) for stop in stops], RECENT, 2, 4.5)
        for stop in stops:
            is_last = stop is stops[-1]
            edge = self.wedge(stop, stops)
            width, halo = (2.6, 5) if is_last else (1.6, 3.4)
            self.line([*edge, *edge[:2]], _shade(stop, stops), width, halo)
        for mark in reversed(marks):
            shade = _shade(mark.stops[-1], stops)
            if mark.spot != mark.place:
                place = self.to_layer(mark.place)
                self.line([place, self.to_layer(mark.spot)], INK, 1.2, 3)
                self.pen.circle(place, 3 * self.scale, fill=(*INK, 255))
            self.pill(mark, shade)

    def to_layer(self, pixel: Pixel) -> Pixel:
        """Convert a pixel of the image to the layer."""
        return (pixel[0] - self.corner[0]) * SMOOTH, (pixel[1] - self.corner[1]) * SMOOTH

    def wedge(self, stop: MapPose, stops: Sequence[MapPose]) -> list[Pixel]:
        """Return the corners of a stop's wedge on the layer."""
        u, v = self.to_layer(stop.place)
        reach = (WEDGE_HERE_PIXELS if stop is stops[-1] else WEDGE_PIXELS) * self.scale
        steps = 16
        angles = [
            math.radians(stop.yaw + stop.field_of_view * (step / steps - 0.5))
            for step in range(steps + 1)
        ]
        arc = [(u + reach * math.cos(a), v - reach * math.sin(a)) for a in angles]
        return [(u, v), *arc]

    def line(self, corners: list[Pixel], colour: Colour, width: float, halo: float) -> None:
        """Draw a line through pixels of the layer with a white outline."""
        for shade, wide in ((PAPER, halo), (colour, width)):
            self.pen.line(
                corners, fill=(*shade, 255), width=round(wide * self.scale), joint="curve"
            )

    def pill(self, mark: Mark, colour: Colour) -> None:
        """Draw the background of a mark's numbers, with a white outline."""
        left, top, right, bottom = mark.box(mark.spot)
        box = (*self.to_layer((left, top)), *self.to_layer((right, bottom)))
        self.pen.rounded_rectangle(
            box,
            radius=(bottom - top) / 2 * SMOOTH,
            fill=(*colour, 255),
            outline=(*PAPER, 255),
            width=round(1.5 * self.scale),
        )
