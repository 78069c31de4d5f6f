"""Weight files of a model directory: validated and fingerprinted without reading them completely."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from render_agent.engines.bundled_models import suggest_models
from render_agent.errors import SetupError
from render_agent.util.safe_parse import parse_json

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
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
        reject_pickle(folder)
        raise SetupError(
            f"{folder} contains no weights (model.safetensors, or an index of several such files):"
            f" download the model again, or use {suggest_models()}"
        )
    for file in files:
        if not file.is_file():
            raise SetupError(f"{file} is listed in the index but missing: download it again")
        check_complete(file)
    # If peft is installed, transformers would load the adapter and its base model instead.
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if (folder / name).exists():
            raise SetupError(
                f"{folder} contains whole weights and an adapter ({name}): move the adapter's files to a folder of their"
                " own, or delete them if it is merged into the weights"
            )
    return files


def is_adapter(folder: Path) -> bool:
    """True if a folder contains an adapter without the weights of a whole model."""
    has_weights = any((folder / name).is_file() for name in (INDEX, SINGLE))
    return (folder / ADAPTER_CONFIG).is_file() and not has_weights


def reject_pickle(folder: Path) -> None:
    """Raise SetupError if a folder contains weights as a pickle."""
    if pickle_names := sorted(file.name for file in folder.iterdir() if file.suffix in PICKLED):
        raise SetupError(
            f"{folder / pickle_names[0]} is a pickle, which can run code when it is opened. Download the"
            " weights as safetensors, or convert them in an isolated environment."
        )


def processor_fingerprint(folder: Path) -> str:
    """Return a SHA-256 over the files of a model that determine its prompts."""
    digest = hashlib.sha256()
    for name in PROCESSOR_FILES:
        if (file := folder / name).is_file():
            digest.update(f"{name} {file.stat().st_size}".encode() + file.read_bytes())
    return digest.hexdigest()


def fingerprint(folder: Path) -> str:
    """Return a SHA-256 that identifies a model's weights. Raises SetupError as `weight_files`."""
    return _digest(folder / "config.json", weight_files(folder))


def adapter_fingerprint(folder: Path) -> str:
    """Return a SHA-256 that identifies an adapter and its own processor, if it has one."""
    own = [folder / name for name in PROCESSOR_FILES if (folder / name).is_file()]
    return _digest(folder / ADAPTER_CONFIG, [folder / ADAPTER_WEIGHTS, *own])


def _digest(config: Path, files: Iterable[Path]) -> str:
    """Return a SHA-256 of a configuration and other files, computed in well under a second.

    It covers the name, the size and evenly spaced samples of every file; files up to 64 MiB are covered completely.
    """
    digest = hashlib.sha256(config.read_bytes())
    for file in files:
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


def check_complete(file: Path) -> None:
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
