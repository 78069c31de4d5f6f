"""The layers of the package and the folders that may import heavy libraries; tests/project/test_house.py enforces both."""

from __future__ import annotations

from pathlib import Path

TREE = Path(__file__).parents[1]

# The folders of the package, lowest first. A module may only import folders of lower levels.
LEVELS = [
    "errors",
    "util",
    "extras",
    "scans",
    "options registry",
    "dialogue",
    "tasks",
    "score",
    "render",
    "visibility",
    "views",
    "engines",
    "agents",
    "runs",
    "parts",
    "report",
    "api",
    "environments",
    "mcp_server",
    "cli",
    "__main__",
]

# The folders in which a heavy library may be imported.
DOORS = {
    "DracoPy": "scans.formats",
    "OpenGL": "render",
    "llguidance": "engines",
    "gymnasium": "environments",
    "gsplat": "render.rasteriser.gaussians",
    "inspect_ai": "report.export",
    "jinja2": "engines.checkpoint util.web",
    "laspy": "scans.formats.clouds",
    "llvmlite": "render.rasteriser",
    "matplotlib": "report",
    "mcp": "mcp_server",
    "mlflow": "runs.loggers",
    "numba": "render.rasteriser",
    "open3d": "scans.formats",
    "anthropic": "engines.anthropic",
    "google": "engines.gemini",
    "openai": "engines.openai",
    "openenv": "environments",
    "peft": "engines.checkpoint",
    "pandas": "api report.export",
    "pyarrow": "tasks report.export",
    "pxr": "scans.formats",
    "pye57": "scans.formats.clouds",
    "pyrender": "render",
    "qwen_vl_utils": "engines.families",
    "ray": "runs.workers",
    "rerun": "report.export",
    "scipy": "agents.verifiers parts scans render score",
    "sklearn": "report",
    "starlette": "util.web engines.human report.pages mcp_server",
    "tensorboard": "runs.loggers",
    "torch": "agents.verifiers runs.loggers engines cli.commands.doctor render.rasteriser.gaussians",
    "torchvision": "engines cli.commands.doctor",
    "trackio": "runs.loggers",
    "transformers": "agents.verifiers engines cli.commands.doctor",
    "trimesh": "scans render visibility",
    "uvicorn": "util.web",
    "verifiers": "environments",
    "vllm": "engines.vllm",
    "wandb": "runs.loggers",
    "zstandard": "scans.formats.splats",
}
