"""Finds a model by its name, on the hub or on disk, before anything heavy is imported."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from render_agent.engines.bundled_models import NOTES, bundled_model, instead
from render_agent.engines.checkpoint.weight_files import (
    fingerprint,
    processor_fingerprint,
    weight_files,
)
from render_agent.errors import SetupError, UsageError
from render_agent.util.display import bar_class, stage
from render_agent.util.hub import hub_file
from render_agent.util.safe_parse import parse_json

LOG = logging.getLogger(__name__)
WAY_OUT = f"name a directory that holds the model, or use {instead()}"
FILES = ["*.json", "*.jinja", "*.txt", "*.model", "*.safetensors"]


@dataclass(frozen=True, slots=True)
class FoundModel:
    """Where a model lies.

    name: as it was asked for. folder: the directory of its files. commit: the hub's, None for a
    directory or a bundled model. config: its config.json. fetched: whether the weights are there too.
    """

    name: str
    folder: Path
    commit: str | None
    config: Mapping[str, Any]
    fetched: bool = True


def find_model(model: str, revision: str | None = None) -> FoundModel:
    """Return the model that a bundled name, a directory or a hub name stands for; no weights are loaded or fetched.

    SetupError where there is no such model, where its weights are not whole, or where it takes no
    pictures.
    """
    bundled = bundled_model(model)
    try:
        folder = bundled or Path(model).expanduser()
    except RuntimeError:
        raise SetupError(f"{model} names the home of a user who is not here: {WAY_OUT}") from None
    if bundled and not (bundled / "config.json").is_file():
        raise SetupError(
            f"the bundled model {model} is not there in {bundled.parent}: make it (make train), or use"
            " --engine scripted"
        )
    if folder.is_dir():
        if revision is not None:
            kind = "a bundled model" if bundled else "a directory"
            raise UsageError(f"--revision belongs to a hub name, and {model} is {kind}")
        located = FoundModel(model, folder, None, _read_config(folder / "config.json", model))
    elif folder.exists() or model.startswith((".", "/", "~")) or model.count("/") > 1:
        wrong = "is a file, not" if folder.exists() else "is not"
        raise SetupError(f"{model} {wrong} a directory: {WAY_OUT}")
    else:
        located = _find_on_hub(model, revision)
    if located.fetched:
        weight_files(located.folder)
    if not takes_pictures(located.config):
        raise SetupError(
            f"{model} is a {located.config.get('model_type', 'model')} without a vision part: name a"
            " vision-language model such as Qwen/Qwen3-VL-8B-Instruct"
        )
    return located


def describe_model(model: str, revision: str | None = None) -> dict[str, Any]:
    """Return what identifies a model and the libraries that run it, as `find_model` sees them.

    `revision` is the hub's commit; `weights` and `processor` are fingerprints of a directory's files;
    `note`, of a bundled model alone, is what must be said beside its figures.
    """
    return describe_found(find_model(model, revision))


def describe_found(located: FoundModel) -> dict[str, Any]:
    """Return what `describe_model` returns, of a model that was found before."""
    note = NOTES.get(located.name)
    return {
        **({} if note is None else {"note": note}),
        "revision": located.commit,
        "weights": None if located.commit else f"sha256:{fingerprint(located.folder)}",
        "processor": None if located.commit else f"sha256:{processor_fingerprint(located.folder)}",
        "model_type": located.config.get("model_type"),
        "transformers": version("transformers"),
        "torch": version("torch"),
    }


def fetch_model(located: FoundModel) -> FoundModel:
    """Return a model whose files are all on this machine, fetched from the hub where they are not.

    SetupError where that fails; what was fetched is kept, and the next try goes on from there.
    """
    if located.fetched:
        return located
    from huggingface_hub import errors, snapshot_download

    LOG.info("fetching %s at %s from the hub", located.name, located.commit)
    try:
        with stage(f"fetching {located.name}", in_bytes=True, announced=True) as fetching:
            folder = snapshot_download(
                located.name,
                revision=located.commit,
                allow_patterns=FILES,
                tqdm_class=bar_class(fetching),
            )
        weight_files(Path(folder))
    # The root of its client's errors, whichever client this version of the library uses.
    except (OSError, errors.HTTPError) as error:  # type: ignore[attr-defined]
        raise SetupError(
            f"{located.name} could not be fetched whole from the hub ({type(error).__name__}): start"
            " again to go on with it"
        ) from error
    return replace(located, folder=Path(folder), fetched=True)


def takes_pictures(config: Mapping[str, Any]) -> bool:
    """Whether a config.json may be a vision-language model's; False where it plainly is not."""
    if any(name.startswith(("vision", "vq", "visual")) for name in config):
        return True
    architectures = config.get("architectures") or []
    return not any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in architectures)


def _find_on_hub(name: str, revision: str | None) -> FoundModel:
    """Return a model on the hub, or in its cache on this machine, whose folder is named by its commit."""
    config, listed = hub_file(name, "config.json", WAY_OUT, revision=revision)
    if listed is not None and not any(file.endswith(".safetensors") for file in listed):
        wanted = f"{name} at revision {revision}" if revision else name
        raise SetupError(f"{wanted} has no safetensors weights on the hub: {WAY_OUT}")
    folder, fetched = config.parent, listed is None
    return FoundModel(name, folder, folder.name, _read_config(config, name), fetched)


def _read_config(file: Path, model: str) -> dict[str, Any]:
    try:
        config = parse_json(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise SetupError(f"{model} holds no model: it has no config.json; {WAY_OUT}") from error
    except (OSError, ValueError) as error:
        raise SetupError(f"{file} cannot be read ({error}): fetch the model again") from error
    if not isinstance(config, dict):
        raise SetupError(f"{file} is no model's configuration: fetch the model again")
    return config
