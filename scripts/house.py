"""The plan of the house as data: the levels of its rooms, and where heavy libraries may be imported.

`tests/project/test_house.py` holds the tree to it, and `scripts/reference.py` writes it into docs/architecture.md.
"""

from __future__ import annotations

import ast
from pathlib import Path

TREE = Path(__file__).parents[1]

LEVELS = [
    "errors models text",
    "extras geometry registry system",
    "config scene score web",
    "dialogue",
    "questions",
    "beliefs render",
    "engines observation",
    "agents",
    "runs",
    "analysis",
    "api",
    "cli",
    "__main__",
]
"""The rooms of the package, lowest first; a room imports rooms of lower levels only, never its neighbours."""

DOORS = {
    "DracoPy": "scene.formats",
    "OpenGL": "render",
    "llguidance": "engines",
    "gsplat": "render.rasteriser.gaussians",
    "inspect_ai": "analysis.export",
    "jinja2": "engines.checkpoint web",
    "laspy": "scene.formats.clouds",
    "llvmlite": "render.rasteriser",
    "matplotlib": "analysis",
    "mlflow": "analysis.export.loggers",
    "numba": "render.rasteriser",
    "open3d": "scene.formats",
    "openai": "engines.openai",
    "pandas": "api analysis.export",
    "pyarrow": "questions analysis.export",
    "pxr": "scene.formats",
    "pye57": "scene.formats.clouds",
    "pyrender": "render",
    "qwen_vl_utils": "engines.families",
    "ray": "runs.workers",
    "rerun": "analysis.export",
    "scipy": "beliefs scene render score",
    "sklearn": "analysis",
    "starlette": "web engines.human analysis.live",
    "tensorboard": "analysis.export.loggers",
    "torch": "agents.verifiers analysis.export.loggers engines cli.commands.doctor render.rasteriser.gaussians",
    "torchvision": "engines cli.commands.doctor",
    "trackio": "analysis.export.loggers",
    "transformers": "agents.verifiers engines cli.commands.doctor",
    "trimesh": "scene render",
    "uvicorn": "web",
    "vllm": "engines.vllm",
    "wandb": "analysis.export.loggers",
    "zstandard": "scene.formats.splats",
}
"""The rooms in which a heavy library may be imported."""


def first_sentence(path: Path) -> str:
    """Return the first line of a module's docstring, without its last full stop."""
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return told.splitlines()[0].removesuffix(".") if told else ""


def source_of(room: str) -> Path:
    """Return the file whose docstring describes a room: a folder's `__init__`, or the module itself."""
    folder = TREE / "render_agent" / room
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def level_rows() -> list[tuple[str, ...]]:
    """Return a row a room, lowest first: its level, its link, what it holds."""
    rows = []
    for number, level in enumerate(LEVELS, 1):
        for room in level.split():
            source = source_of(room)
            place = f"{room}/" if source.name == "__init__.py" else source.name
            rows.append((str(number), f"[{room}](../render_agent/{place})", first_sentence(source)))
    return rows


def library_rows() -> list[tuple[str, ...]]:
    """Return a row a heavy library: its name, and the rooms that may import it."""
    return [(library, ", ".join(rooms.split())) for library, rooms in DOORS.items()]


def module_rows(folder: Path) -> list[tuple[str, ...]]:
    """Return a row a module of one folder, folders last: its name, and what it holds."""
    modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    inner = sorted(folder.glob("*/__init__.py"))
    return [(f"`{path.stem}`", first_sentence(path)) for path in modules] + [
        (f"**{path.parent.name}/**", first_sentence(path)) for path in inner
    ]


def folders(package: str) -> list[Path]:
    """Return the folders of a package that hold modules, parents first."""
    return [path.parent for path in sorted((TREE / package).rglob("__init__.py"))]
