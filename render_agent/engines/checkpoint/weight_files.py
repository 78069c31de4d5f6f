"""The files of weights in a model's directory, checked and identified without reading them whole."""

from __future__ import annotations

import hashlib
from pathlib import Path

from render_agent.engines.bundled_models import instead
from render_agent.errors import SetupError
from render_agent.util.safe_parse import parse_json

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
"""Endings of weights whose reading may run whatever code is in the file: they are never opened."""

PROCESSOR = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json",
    "special_tokens_map.json", "chat_template.jinja", "chat_template.json", "processor_config.json",
    "preprocessor_config.json", "generation_config.json",
)  # fmt: skip
SAMPLES = 256
SAMPLE_BYTES = 1 << 16
SMALL = 1 << 26


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a model's weights, in order.

    SetupError where there are none, where one that the index names is missing or in another folder,
    where a file is cut off or no safetensors, and where the weights are pickles.
    """
    if (folder / INDEX).is_file():
        files = [folder / name for name in _indexed(folder / INDEX)]
    else:
        files = [folder / SINGLE] if (folder / SINGLE).is_file() else []
    if not files:
        if pickled := sorted(file.name for file in folder.iterdir() if file.suffix in PICKLED):
            raise SetupError(
                f"{folder / pickled[0]} is not read, as such a file can hold code that runs when it is"
                " opened: fetch the same weights as safetensors, or convert them on a machine that you"
                " can spare"
            )
        raise SetupError(
            f"{folder} holds no weights (model.safetensors, or an index of several such files):"
            f" fetch the model again, or use {instead()}"
        )
    for file in files:
        if not file.is_file():
            raise SetupError(f"{file} is missing although the index names it: fetch it again")
        _check_whole(file)
    return files


def processor_fingerprint(folder: Path) -> str:
    """Return a SHA-256 over a model's files that make its prompts of texts and pictures, those there are."""
    digest = hashlib.sha256()
    for name in PROCESSOR:
        if (file := folder / name).is_file():
            digest.update(f"{name} {file.stat().st_size}".encode() + file.read_bytes())
    return digest.hexdigest()


def fingerprint(folder: Path) -> str:
    """Return a SHA-256 that tells one model's weights from another's, in well under a second.

    It covers config.json, and of every weight file its name, its size and samples spread over it;
    files of at most 64 MiB are covered whole. SetupError as `weight_files`.
    """
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in weight_files(folder):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}".encode())
        step = SAMPLE_BYTES if size <= SMALL else size // SAMPLES
        with file.open("rb") as stream:
            for start in range(0, size, step):
                stream.seek(start)
                digest.update(stream.read(SAMPLE_BYTES))
    return digest.hexdigest()


def _indexed(index: Path) -> list[str]:
    try:
        names = sorted(set(parse_json(index.read_text("utf-8"))["weight_map"].values()))
        if any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
            raise ValueError("it names what is no safetensors file beside it")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"{index} is no index of weights: fetch it again") from error
    return names


def _check_whole(file: Path) -> None:
    """SetupError where a safetensors file is not as long as its header says, or has none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy"):
            return
    except (SafetensorError, OSError) as error:
        raise SetupError(
            f"{file} is no whole safetensors file (cut off, or a git-lfs pointer): fetch it again"
        ) from error
