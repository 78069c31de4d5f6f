"""Optional packages: the extras of setup.cfg, named in errors if a package is missing."""

from __future__ import annotations

from importlib.util import find_spec

from render_agent.errors import SetupError

EXTRAS = {  # optional module -> extra that installs it
    "DracoPy": "scans",
    "anthropic": "anthropic",
    "google.genai": "gemini",
    "gsplat": "splats",
    "gymnasium": "gym",
    "inspect_ai": "inspect",
    "laspy": "scans",
    "lazrs": "scans",
    "matplotlib": "report",
    "mcp": "mcp",
    "mlflow": "mlflow",
    "openai": "openai",
    "openenv": "openenv",
    "pandas": "pandas",
    "peft": "lora",
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
    "verifiers": "verifiers",
    "vllm": "vllm",
    "wandb": "wandb",
    "zstandard": "scans",
}
PACKAGES = {  # module -> package, where names differ
    "google.genai": "google-genai",
    "inspect_ai": "inspect-ai",
    "pxr": "usd-core",
    "rerun": "rerun-sdk",
    "sklearn": "scikit-learn",
}


def require(use: str, *modules: str, instead: str = "") -> None:
    """Raise SetupError, naming the extra to install, if a module is missing."""
    for module in modules:
        if not _is_installed(module):
            install = f"render_agent[{EXTRAS[module]}]" if module in EXTRAS else "render_agent"
            package = PACKAGES.get(module, module)
            sentence = f'{use} needs {package}, which is not installed. Install it with: pip install "{install}"'
            raise SetupError(sentence + (instead and f", or {instead}"))


def _is_installed(module: str) -> bool:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # its parent package is missing
        return False
    return spec is not None and spec.origin is not None  # None for a folder of that name
