"""Which scan files are read, and why are the others refused?

    python -m render_agent_lab.bench.scans FOLDER... --output render_agent_lab/bench/results/scans.md
    python -m render_agent_lab.bench.scans FOLDER --sheets DIR

Opens every file with the suffix of a scan format in the given folders, which may contain folders per source. Any
exception other than the package's own errors counts as a fault. With `--sheets`, contact sheets of first views are
written, to be looked at: a scan that is read but looks wrong is not found by any figure.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import numpy as np
from PIL import Image, ImageDraw

from render_agent import RenderAgentError, open_scene
from render_agent.errors import SceneError
from render_agent.scans.camera import Camera
from render_agent.scans.formats.readers import FORMATS, SCAN_SUFFIXES
from render_agent.scans.scene import Scene
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table

HEAD = ("format", "files", "read", "read with --unit", "refused", "with a note", "slowest (s)")
WRONG_SIZE = ("is impossible for a room",)
TILE = (256, 192)
OUTSIDE = (35.0, -25.0)  # yaw and pitch of the views on contact sheets
COLUMNS = 5
ROWS = 5
MAX_EXAMPLES = 2  # files named for result reason


@dataclass(frozen=True)
class Opened:
    """The outcome of opening one file."""

    path: str  # the file, relative to the folder passed
    format: str  # name of its format by suffix
    reason: str = ""  # why it was refused; empty if it was read
    is_room: bool = True
    """Whether its size is possible for a room; if not, it is read with `--unit m`."""
    is_fault: bool = False  # whether an exception escaped that is not one of the package's errors
    seconds: float = 0.0
    kind: str = ""  # what was read: mesh, cloud or splat
    size: tuple[float, ...] = ()  # extent in metres
    colour: tuple[int, ...] = ()  # median sRGB colour
    notes: tuple[str, ...] = ()


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--sheets", type=click.Path(path_type=Path), help="Write contact sheets here.")
@click.option("--rows", type=click.Path(path_type=Path), help="Write a JSON line per file here.")
@OUTPUT
def main(
    folders: tuple[Path, ...], sheets: Path | None, rows: Path | None, output: Path | None
) -> None:
    files_opened: list[Opened] = []
    tiles: list[Image.Image] = []
    for folder in folders:
        for path in scan_files(folder):
            result, view = open_file(path, folder)
            files_opened.append(result)
            if rows is not None:
                with rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
            if sheets is not None and view is not None:
                tiles.append(_tile(view, result))
                if len(tiles) % (COLUMNS * ROWS) == 0:
                    _write_sheet(sheets, tiles)
    if sheets is not None and len(tiles) % (COLUMNS * ROWS):
        _write_sheet(sheets, tiles)
    files_read = [result for result in files_opened if not result.reason]
    num_not_rooms = sum(not result.is_room for result in files_read)
    lines = [
        f"{len(files_opened):,} files: {len(files_read) - num_not_rooms:,} read,"
        f" {num_not_rooms:,} read with `--unit m` because their size is"
        f" impossible for a room, {len(files_opened) - len(files_read):,} refused,"
        f" {sum(result.is_fault for result in files_opened)} faults (exceptions that are not an error message).",
        "",
        *table(HEAD, by_format(files_opened)),
        "",
        "Reasons of the refusals:",
        "",
        *table(("reason", "files", "examples"), by_reason(files_opened)),
    ]
    publish(output, "Scans of other programs", lines, machine("trimesh", "laspy", "usd-core"))


def scan_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that may be scans, apart from hidden ones."""
    for path in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in SCAN_SUFFIXES and path.is_file() and not is_hidden:
            yield path


def open_file(path: Path, folder: Path) -> tuple[Opened, Image.Image | None]:
    """Open a file and render its first view."""
    name, started_at = str(path.relative_to(folder.parent)), time.perf_counter()
    suffix = path.suffix.lower()
    file_format = next(known.name for known in FORMATS if suffix in known.suffixes)
    is_room = True
    try:
        try:
            opened = open_scene(path, size=TILE)
        except SceneError as error:
            if not any(text in str(error) for text in WRONG_SIZE):
                raise
            is_room = False
            opened = open_scene(path, size=TILE, unit="m")
        view = opened.view(_outside(opened.scene)).image.convert("RGB")
    except RenderAgentError as error:
        reason = str(error).partition(" cannot be read: ")[2] or str(error)
        return Opened(name, file_format, reason, seconds=time.perf_counter() - started_at), None
    except Exception as error:  # noqa: BLE001 - this benchmark looks for crashes
        reason = f"{type(error).__name__}: {error}"
        return Opened(name, file_format, reason, is_fault=True), None
    scene = opened.scene
    kind = "splat" if scene.gaussians is not None else "cloud" if scene.faces is None else "mesh"
    result = Opened(
        name,
        file_format,
        is_room=is_room,
        seconds=time.perf_counter() - started_at,
        kind=kind,
        size=tuple(round(float(side), 3) for side in np.ptp(scene.points, axis=0)),
        colour=tuple(int(level) for level in np.median(scene.colours, axis=0)),
        notes=scene.notes,
    )
    return result, view


def _outside(scene: Scene) -> Camera:
    """Return a camera outside a scene that sees all of it from above."""
    low, high = scene.points.min(axis=0), scene.points.max(axis=0)
    aim = Camera((0, 0, 0), *OUTSIDE)
    x, y, z = (low + high) / 2 - 1.3 * float(np.linalg.norm(high - low)) * aim.forward
    return replace(aim, position=(float(x), float(y), float(z)))


def by_format(opened: Sequence[Opened]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the table of formats."""
    for name in sorted({result.format for result in opened}):
        files = [result for result in opened if result.format == name]
        read = [result for result in files if not result.reason]
        yield (
            name,
            len(files),
            sum(result.is_room for result in read),
            sum(not result.is_room for result in read),
            len(files) - len(read),
            sum(bool(result.notes) for result in read),
            f"{max(result.seconds for result in files):.1f}",
        )


def by_reason(opened: Sequence[Opened]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the table of reasons, most frequent first, without numbers and names."""
    reasons = {result.path: _generalise(result.reason) for result in opened if result.reason}
    for reason, count in Counter(reasons.values()).most_common():
        examples = [
            Path(path).name for path, reason_of_file in reasons.items() if reason_of_file == reason
        ]
        yield reason, count, ", ".join(f"`{name}`" for name in examples[:MAX_EXAMPLES])


def _generalise(reason: str) -> str:
    """Return a reason without paths, quoted values and numbers."""
    reason = re.sub(r"(/[^\s@:,]+)+/", "", reason.partition("; ")[0])
    reason = re.sub(r"'[^']*'", "'…'", reason)
    return re.sub(r"\b\d[\d,.]*", "N", reason).replace("|", "/")[:160]


def _tile(view: Image.Image, result: Opened) -> Image.Image:
    draw = ImageDraw.Draw(view)
    size = " x ".join(f"{side:.3g}" for side in result.size)
    for row, text in enumerate((result.path[-40:], f"{result.kind} {size} m", *result.notes[:2])):
        draw.text((3, 2 + 11 * row), text[:44], fill=(255, 0, 255))
    return view


def _write_sheet(folder: Path, tiles: Sequence[Image.Image]) -> None:
    """Write the tiles that are not on an earlier sheet."""
    number = (len(tiles) - 1) // (COLUMNS * ROWS)
    sheet = Image.new("RGB", (TILE[0] * COLUMNS, TILE[1] * ROWS), "white")
    for index, tile in enumerate(tiles[number * COLUMNS * ROWS :]):
        sheet.paste(tile, (index % COLUMNS * TILE[0], index // COLUMNS * TILE[1]))
    folder.mkdir(parents=True, exist_ok=True)
    sheet.save(folder / f"{number:03d}.png")


if __name__ == "__main__":
    main()
