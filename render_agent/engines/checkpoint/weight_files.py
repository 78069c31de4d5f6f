"""Weight files of a model directory: validated and fingerprinted without reading them completely."""

from __future__ import annotations

import hashlib
from pathlib import Path

from render_agent.engines.bundled_models import suggest_models
from render_agent.errors import SetupError
from render_agent.util.safe_parse import parse_json

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")  # never opened: reading a pickle can run code

# Files that determine how texts and images become a prompt.
PROCESSOR_FILES = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json",
    "special_tokens_map.json", "chat_template.jinja", "chat_template.json", "processor_config.json",
    "preprocessor_config.json", "generation_config.json",
)  # fmt: skip
NUM_SAMPLES = 256  # per weight file in a fingerprint
SAMPLE_BYTES = 1 << 16
MAX_FULL_BYTES = 1 << 26  # files up to 64 MiB are hashed completely


def weight_files(folder: Path) -> list[Path]:
    """Return the sorted weight files of a model directory."""
    if (folder / INDEX).is_file():
        files = [folder / name for name in _indexed_files(folder / INDEX)]
    else:
        files = [folder / SINGLE] if (folder / SINGLE).is_file() else []
    if not files:
        if pickle_names := sorted(file.name for file in folder.iterdir() if file.suffix in PICKLED):
            raise SetupError(
                f"{folder / pickle_names[0]} is a pickle, which can run code when it is opened. Download the"
                " weights as safetensors, or convert them in an isolated environment."
            )
        raise SetupError(
            f"{folder} contains no weights (model.safetensors, or an index of several such files):"
            f" download the model again, or use {suggest_models()}"
        )
    for file in files:
        if not file.is_file():
            raise SetupError(f"{file} is listed in the index but missing: download it again")
        _check_complete(file)
    return files


def processor_fingerprint(folder: Path) -> str:
    """Return a SHA-256 over the files of a model that determine its prompts."""
    digest = hashlib.sha256()
    for name in PROCESSOR_FILES:
        if (file := folder / name).is_file():
            digest.update(f"{name} {file.stat().st_size}".encode() + file.read_bytes())
    return digest.hexdigest()


def fingerprint(folder: Path) -> str:
    """Return a SHA-256 that identifies a model's weights, computed in well under a second.

    It covers config.json and, for every weight file, its name, its size and evenly spaced samples; files
    up to 64 MiB are covered completely. Raises SetupError as `weight_files`.
    """
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in weight_files(folder):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}".encode())
        step = SAMPLE_BYTES if size <= MAX_FULL_BYTES else size // NUM_SAMPLES
        with file.open("rb") as stream:
            for start in range(0, size, step):
                stream.seek(start)
                digest.update(stream.read(SAMPLE_BYTES))
    return digest.hexdigest()


def _indexed_files(index: Path) -> list[str]:
    try:
        names = sorted(set(parse_json(index.read_text("utf-8"))["weight_map"].values()))
        if any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
            raise ValueError("a listed file is not a safetensors file in the same folder")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"{index} is not a valid index of weights: download it again") from error
    return names


def _check_complete(file: Path) -> None:
    """Raise SetupError if a safetensors file has no valid header or not the length that it states."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy"):
            return
    except (SafetensorError, OSError) as error:
        raise SetupError(
            f"{file} is not a complete safetensors file (truncated, or a git-lfs pointer): download it"
            " again"
        ) from error
