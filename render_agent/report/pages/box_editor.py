"""The page on which a person draws and names the boxes of a scan: a plan and two elevations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from render_agent.errors import RenderAgentError
from render_agent.options import RunConfig
from render_agent.render.png import encode_png
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.scans.boxes import Array
from render_agent.scans.camera import MapCamera
from render_agent.scans.formats.axis_alignment import read_alignment
from render_agent.scans.formats.cleaning import upright_turn
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.own_boxes import own_boxes
from render_agent.util.atomic_files import atomic_write, json_bytes
from render_agent.util.safe_parse import decode_json
from render_agent.util.web.checks import PageFiles, image_response
from render_agent.util.web.templates import ASSETS, environment

TEMPLATES = Path(__file__).parent / "templates"
WIDTH_PIXELS = 640  # of each image
PAD_METRES = 0.2  # shown around the scan
CUT_METRES = 2.0  # the plan shows what is below this height above the floor

# Rows: the scene's axes that become right, up and towards the viewer in each view.
VIEWS = {
    "plan": ("plan, from above", np.eye(3)),
    "front": ("from the front (low y)", np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])),
    "side": ("from the right (high x)", np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])),
}

Metres = Annotated[float, Meta(ge=-1e6, le=1e6)]


class _Drawn(Struct):
    """A box that was drawn, in metres in the frame of the scene."""

    label: Annotated[str, Meta(min_length=1, max_length=200)]
    low: tuple[Metres, Metres, Metres]
    high: tuple[Metres, Metres, Metres]


@dataclass(frozen=True, eq=False)
class BoxView:
    """An orthographic image of the scene: its name, title, corner and scale."""

    name: str
    title: str
    axes: tuple[int, int]  # the scene's axes to the right and up
    low: tuple[float, float]  # metres at the lower left corner
    size: tuple[int, int]  # width and height in pixels
    scale: float  # metres per pixel
    image: bytes  # PNG


def draw_views(scene: Scene) -> list[BoxView]:
    """Draw a scene from above, from the front and from the right, without what is nearest to the viewer."""
    renderer, views = Rasteriser(), []
    try:
        for name, (title, turn) in VIEWS.items():
            right, up = (int(np.argmax(np.abs(row))) for row in turn[:2])
            low = scene.bounds[0][[right, up]] - PAD_METRES
            high = scene.bounds[1][[right, up]] + PAD_METRES
            scale = float(high[0] - low[0]) / WIDTH_PIXELS
            size = WIDTH_PIXELS, max(1, round(float(high[1] - low[1]) / scale))
            depths = np.sort(scene.bounds @ turn[2])
            cut = float(depths[1] - 0.25)
            if name == "plan":
                cut = min(scene.floor + CUT_METRES, cut)
            points = (scene.points @ turn.T).astype(np.float32)
            turned = replace(scene, points=points, gaussians=None, texture=None)
            x, y = (float(value) for value in (low + high) / 2)
            frame = renderer.draw(turned, MapCamera((x, y), cut, scale), *size)
            corner = float(low[0]), float(low[1])
            image = encode_png(frame.colours)
            views.append(BoxView(name, title, (right, up), corner, size, scale, image))
    finally:
        renderer.close()
    return views


class BoxEditor:
    """Serves the views of a scan and writes the boxes that are drawn on them to a file."""

    def __init__(self, scene: Scene, scan: Path, file: Path, config: RunConfig, token: str) -> None:
        self.scene, self.scan, self.file, self.config, self.token = scene, scan, file, config, token
        self.views = draw_views(scene)

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the page, its images, and the endpoint that saves the boxes."""
        return [
            Route("/", self._page),
            Route("/view/{name}.png", self._image),
            Route("/boxes", self._save, methods=["POST"]),
            Mount("/assets", PageFiles(ASSETS, ".css", ".js", ".svg")),
            Mount("/", PageFiles(TEMPLATES, ".css", ".js")),
        ]

    def _page(self, request: Request) -> Response:
        values: dict[str, Any] = {"name": "boxes", "stamps": [], "notes": [], "root": ""}
        values |= {"token": self.token, "views": self.views, "file": self.file.name}
        values |= {"floor": round(self.scene.floor, 3), "scan": self.scan.name}
        return HTMLResponse(environment("report/pages").get_template("boxes.html").render(**values))

    def _image(self, request: Request) -> Response:
        images = {view.name: view.image for view in self.views}
        name = request.path_params["name"]
        return image_response(images[name]) if name in images else Response(status_code=404)

    async def _save(self, request: Request) -> Response:
        """Write the boxes, [{label, low, high}] in metres in the scene's frame, if they fit the scan."""
        try:
            drawn: list[_Drawn] = decode_json(await request.body(), list[_Drawn])
        except ValueError as error:
            return JSONResponse({"error": f"The boxes cannot be read: {error}."}, 400)
        try:
            content = json_bytes([self._entry(box) for box in drawn])
            with TemporaryDirectory() as folder:  # check the boxes before the file is written
                draft = Path(folder, self.file.name)
                draft.write_bytes(content)
                own_boxes(draft, self.scan, self.config)
            atomic_write(self.file, content)
        except RenderAgentError as error:
            return JSONResponse({"error": str(error)}, 422)
        return JSONResponse({"saved": len(drawn)})

    def _entry(self, drawn: _Drawn) -> dict[str, Any]:
        """Return a box as in the file: in the unit and axes of the scan's file."""
        low, high = (np.array(corner, float) for corner in (drawn.low, drawn.high))
        corners = np.array([np.where([i & 4, i & 2, i & 1], high, low) for i in range(8)])
        in_file = self._to_file(corners)
        if read_alignment(self.scan) is not None:  # turned against the axes of the file
            return {"label": drawn.label, "corners": np.round(in_file, 6).tolist()}
        centre, size = in_file.mean(0), np.ptp(in_file, axis=0)
        return {
            "label": drawn.label,
            "center": np.round(centre, 6).tolist(),
            "size": np.round(size, 6).tolist(),
        }

    def _to_file(self, points: Array) -> Array:
        points = points + np.array(self.scene.origin)
        if (alignment := read_alignment(self.scan)) is not None:
            points = (points - alignment[:3, 3]) @ alignment[:3, :3]
        frame = self.scene.frame
        in_file: Array = points @ upright_turn(frame.up) / frame.metres
        return in_file
