"""The layers of the package and the folders that may import heavy libraries; tests/project/test_house.py enforces both."""

from __future__ import annotations

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
    "scipy": "agents.verifiers beliefs scene render score",
    "sklearn": "analysis",
    "starlette": "web engines.human analysis.report",
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
