"""LoRA adapters in PEFT's format: checked without heavy libraries, and merged into their base model by peft."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from render_agent.engines.checkpoint.weight_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    check_complete,
    reject_pickle,
)
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.util.reasons import first_line, reason_of
from render_agent.util.safe_parse import parse_json


def base_model(folder: Path) -> str:
    """Return the name of an adapter's base model. Raises SetupError if the adapter cannot be merged."""
    file = folder / ADAPTER_CONFIG
    try:
        config = parse_json(file.read_text("utf-8"))
        kind, base = config["peft_type"], config["base_model_name_or_path"]
        # Megatron's layers need a module that the adapter names, which would be imported.
        is_mergeable = kind == "LORA" and not config.get("megatron_config")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(
            f"{file} is not the configuration of an adapter ({first_line(error)}): save the adapter again with peft"
        ) from error
    if not is_mergeable:
        raise SetupError(
            f"{folder} is an adapter of the kind {kind}, but only LoRA can be merged here: merge it with the library"
            " that trained it, and pass the merged model"
        )
    if not isinstance(base, str) or not base:
        raise SetupError(
            f"{file} does not name the base model: enter its directory or hub name as base_model_name_or_path"
        )
    if not (folder / ADAPTER_WEIGHTS).is_file():
        reject_pickle(folder)
        raise SetupError(f"{folder} has no {ADAPTER_WEIGHTS}: save the adapter again with peft")
    check_complete(folder / ADAPTER_WEIGHTS)
    require(f"the adapter {folder}", "peft")
    return base


def merge_adapter(model: Any, folder: Path) -> Any:
    """Return the model with an adapter merged into its weights. Raises SetupError if the adapter does not fit."""
    from peft import PeftConfig, PeftModel
    from safetensors import SafetensorError

    try:
        # peft warns of its own use of transformers, and of what is checked below.
        with warnings.catch_warnings(action="ignore"):
            content = PeftConfig.from_json_file(str(folder / ADAPTER_CONFIG))
            config = PeftConfig.from_peft_type(**content)
            config.inference_mode = True
            adapted = PeftModel(model, config)
            loading = adapted.load_adapter(str(folder), "default")
            merged = adapted.merge_and_unload()
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError, SafetensorError
    ) as error:  # fmt: skip
        raise SetupError(
            f"the adapter {folder} cannot be merged into its base model ({reason_of(error)}): check"
            " base_model_name_or_path in its adapter_config.json, or merge it with the library that trained it"
        ) from error
    if unused := sorted([*loading.unexpected_keys, *loading.missing_keys]):
        raise SetupError(
            f"the adapter {folder} does not fit its base model, for example {unused[0]}: check base_model_name_or_path"
            " in its adapter_config.json, or merge it with the library that trained it"
        )
    return merged
