"""Packages that only some uses need: extras of setup.cfg, asked for by name where one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from render_agent.errors import SetupError

EXTRAS = {
    "DracoPy": "scans",
    "gsplat": "splats",
    "inspect_ai": "inspect",
    "laspy": "scans",
    "lazrs": "scans",
    "matplotlib": "report",
    "mlflow": "mlflow",
    "openai": "openai",
    "pandas": "pandas",
    "pyarrow": "parquet",
    "pxr": "scans",
    "pye57": "scans",
    "ray": "ray",
    "rerun": "rerun",
    "sklearn": "audit",
    "starlette": "view",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "uvicorn": "view",
    "vllm": "vllm",
    "wandb": "wandb",
    "zstandard": "scans",
}
"""The optional modules, and the extra of this package that brings each."""


PACKAGES = {
    "inspect_ai": "inspect-ai",
    "pxr": "usd-core",
    "rerun": "rerun-sdk",
    "sklearn": "scikit-learn",
}
"""The packages that are called otherwise than their modules."""


def require(use: str, *modules: str, instead: str = "") -> None:
    """Raise SetupError where a module that `use` needs is not installed; it names the extra to install.

    instead: what else can be done.
    """
    for module in modules:
        spec = find_spec(module)
        # A folder of that name in the working directory is found, too, without an origin.
        if spec is None or spec.origin is None:
            install = f"render_agent[{EXTRAS[module]}]" if module in EXTRAS else "render_agent"
            package = PACKAGES.get(module, module)
            sentence = f'{use} needs {package}, which is not installed: pip install "{install}"'
            raise SetupError(sentence + (instead and f", or {instead}"))
