"""Finds a model by name, on the hub or on disk, without importing heavy libraries."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from render_agent.engines.bundled_models import NOTES, bundled_model, suggest_models
from render_agent.engines.checkpoint.adapter import base_model
from render_agent.engines.checkpoint.weight_files import (
    ADAPTER_CONFIG,
    adapter_fingerprint,
    fingerprint,
    is_adapter,
    processor_fingerprint,
    weight_files,
)
from render_agent.errors import SetupError, UsageError
from render_agent.util.display import stage, stage_bar_class
from render_agent.util.hub import hub_file
from render_agent.util.safe_parse import parse_json

LOG = logging.getLogger(__name__)
ALTERNATIVES = (
    f"pass a model directory, or use {suggest_models()}"  # the remedy in most error messages
)
FILES = ["*.json", "*.jinja", "*.txt", "*.model", "*.safetensors"]


@dataclass(frozen=True, slots=True)
class LocatedModel:
    """The files of a model."""

    name: str
    """The name that was requested."""
    folder: Path
    commit: str | None
    """Commit on the hub; None for a directory or a bundled model."""
    config: Mapping[str, Any]
    """Content of config.json."""
    fetched: bool = True
    """True if the weights are on this machine."""
    adapter: Path | None = None
    """Folder of the adapter to merge into the weights; apart from `name`, the other fields are those of its base model.
    """

    @property
    def processor_folder(self) -> Path:
        """Folder of the processor: that of the adapter if it has a complete one."""
        if self.adapter is not None and (self.adapter / "tokenizer_config.json").is_file():
            names = ("processor_config.json", "preprocessor_config.json")
            if any((self.adapter / name).is_file() for name in names):
                return self.adapter
        return self.folder


def find_model(
    model: str,
    revision: str | None = None,  # branch, tag or commit on the hub; None for the default branch
    *,
    is_base: bool = False,  # True for the base model of an adapter
) -> LocatedModel:
    """Find a model without loading or downloading its weights."""
    bundled_folder = bundled_model(model)
    try:
        folder = bundled_folder or Path(model).expanduser()
    except RuntimeError:
        raise SetupError(
            f"{model} is in the home directory of an unknown user: {ALTERNATIVES}"
        ) from None
    if bundled_folder and not (bundled_folder / "config.json").is_file():
        raise SetupError(
            f"the bundled model {model} is missing from {bundled_folder.parent}: run make train, or use"
            " --engine scripted"
        )
    if folder.is_dir():
        if revision is not None:
            kind = "a bundled model" if bundled_folder else "a directory"
            raise UsageError(f"--revision applies only to models on the hub, but {model} is {kind}")
        if is_adapter(folder):
            if is_base:
                raise SetupError(f"{model} is an adapter itself")
            return _find_adapted(model, folder)
        result = LocatedModel(model, folder, None, _read_config(folder / "config.json", model))
    elif folder.exists() or model.startswith((".", "/", "~")) or model.count("/") > 1:
        problem = "is a file, not a directory" if folder.exists() else "does not exist"
        raise SetupError(f"{model} {problem}: {ALTERNATIVES}")
    else:
        result = _find_on_hub(model, revision)
    if result.fetched:
        weight_files(result.folder)
    if not has_vision_part(result.config):
        raise SetupError(
            f"{model} is a {result.config.get('model_type', 'model')} without a vision part: use a"
            " vision-language model such as Qwen/Qwen3-VL-8B-Instruct"
        )
    return result


def describe_model(model: str, revision: str | None = None) -> dict[str, Any]:
    """Return the metadata that identifies a model and the libraries that run it."""
    return describe_located(find_model(model, revision))


def describe_located(located: LocatedModel) -> dict[str, Any]:
    """Return the metadata of a model, as `describe_model`."""
    note, adapter = NOTES.get(located.name), located.adapter
    return {
        **({} if note is None else {"note": note}),
        "revision": located.commit,
        "weights": None if located.commit else f"sha256:{fingerprint(located.folder)}",
        "processor": None if located.commit else f"sha256:{processor_fingerprint(located.folder)}",
        **({} if adapter is None else {"base": base_model(adapter)}),
        **({} if adapter is None else {"adapter": f"sha256:{adapter_fingerprint(adapter)}"}),
        "model_type": located.config.get("model_type"),
        "transformers": version("transformers"),
        "torch": version("torch"),
    }


def fetch_model(located: LocatedModel) -> LocatedModel:
    """Download the missing files of a model from the hub."""
    if located.fetched:
        return located
    from huggingface_hub import errors, snapshot_download

    LOG.info("downloading %s at %s from the hub", located.name, located.commit)
    try:
        with stage(f"downloading {located.name}", in_bytes=True, announce=True) as download:
            folder = snapshot_download(
                located.name,
                revision=located.commit,
                allow_patterns=FILES,
                tqdm_class=stage_bar_class(download),
            )
        weight_files(Path(folder))
    # HTTPError is the base class of the HTTP client's errors, whichever client this version of the library uses.
    except (OSError, errors.HTTPError) as error:  # type: ignore[attr-defined]
        raise SetupError(
            f"the download of {located.name} from the hub failed ({type(error).__name__}): run the"
            " command again to resume it"
        ) from error
    return replace(located, folder=Path(folder), fetched=True)


def has_vision_part(config: Mapping[str, Any]) -> bool:
    """True unless the content of config.json is clearly that of a model without a vision part."""
    if any(name.startswith(("vision", "vq", "visual")) for name in config):
        return True
    architectures = config.get("architectures") or []
    return not any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in architectures)


def reject_adapter(located: LocatedModel, use: str) -> None:
    """Raise SetupError if a model is an adapter; `use` is what does not support them."""
    if located.adapter is not None:
        raise SetupError(
            f"{use} does not load adapters such as {located.name}: merge it into its base model, or use"
            " --engine transformers"
        )


def _find_adapted(model: str, folder: Path) -> LocatedModel:
    """Find the base model of an adapter."""
    base = base_model(folder)
    try:
        located = find_model(base, is_base=True)
    except SetupError as error:
        raise SetupError(
            f"{model} is an adapter, and its base model cannot be used"
            f" ({str(error).removesuffix(f': {ALTERNATIVES}')}). Download {base}, or enter its directory as"
            f" base_model_name_or_path in {folder / ADAPTER_CONFIG}."
        ) from error
    return replace(located, name=model, adapter=folder)


def _find_on_hub(name: str, revision: str | None) -> LocatedModel:
    """Find a model on the hub or in the local hub cache, where its folder is named after the commit."""
    config, file_names = hub_file(name, "config.json", ALTERNATIVES, revision=revision)
    if file_names is not None and not any(file.endswith(".safetensors") for file in file_names):
        model = f"{name} at revision {revision}" if revision else name
        raise SetupError(f"{model} has no safetensors weights on the hub: {ALTERNATIVES}")
    folder, is_complete = config.parent, file_names is None
    return LocatedModel(name, folder, folder.name, _read_config(config, name), is_complete)


def _read_config(file: Path, model: str) -> dict[str, Any]:
    try:
        config = parse_json(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise SetupError(f"{model} contains no model (no config.json): {ALTERNATIVES}") from error
    except (OSError, ValueError) as error:
        raise SetupError(f"{file} cannot be read ({error}): download the model again") from error
    if not isinstance(config, dict):
        raise SetupError(f"{file} is not a model configuration: download the model again")
    return config
