"""Loads a processor and a model with transformers; anything that can go wrong is a one-sentence SetupError."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from render_agent.engines.checkpoint.adapter import merge_adapter
from render_agent.engines.checkpoint.locate import ALTERNATIVES, LocatedModel, fetch_model
from render_agent.engines.families.model_families import family_of
from render_agent.errors import SetupError
from render_agent.util.display import Stage, stage, stage_bar_class
from render_agent.util.reasons import first_line

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICE_NAME = re.compile(r"auto|cpu|mps|cuda(:\d+)?")

# Load local files only, and never run code from a model. By default, transformers would ask on the terminal.
OFFLINE = {"local_files_only": True, "trust_remote_code": False}
WEIGHTS = {
    **OFFLINE,
    "use_safetensors": True,  # never open a pickle
    # `check_weights` names weights that are missing or have another shape; transformers prints them only.
    "output_loading_info": True,
    "ignore_mismatched_sizes": True,
}


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A loaded model with its processor."""

    processor: Any
    model: Any
    top_k: int
    """The publisher's default for sampling; 0 if there is none."""
    top_p: float
    """The publisher's default for sampling; 1 if there is none."""


def check_names(dtype: str, device: str, option: str = "--device") -> None:
    """Raise SetupError if a dtype or a device name does not exist; `option` is the name for the message."""
    if dtype not in DTYPES:
        raise SetupError(f"--dtype {dtype} does not exist: use one of {', '.join(DTYPES)}")
    if not DEVICE_NAME.fullmatch(device):
        raise SetupError(f"{option} {device} does not exist: use auto, cpu, mps, cuda or cuda:N")


def load_pretrained(
    located: LocatedModel,
    dtype: str,
    device: str,  # auto (the first GPU, or the CPU), cpu, mps, cuda or cuda:N
    options: Mapping[str, Any],
    thinking: str = "auto",
) -> Pretrained:
    """Load a model and its processor, downloading them if necessary."""
    from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

    device = choose_device(device)
    patch_torchvision()
    silence_libraries()
    check_class(located)
    located = fetch_model(located)
    with (
        stage(f"loading the weights of {located.name}", announce=True) as loading,
        progress_bars_to(loading),
    ):
        processor = load_processor(located, thinking)
        model = load_model(located, dtype, device, options)
    defaults = model.generation_config
    top_k, top_p = defaults.top_k or 0, defaults.top_p or 1.0
    # Published sampling parameters would cause a warning in every greedy call.
    defaults.update(do_sample=False, temperature=None, top_k=None, top_p=None)
    return Pretrained(processor, model, top_k, top_p)


def choose_device(name: str, option: str = "--device") -> str:
    """Resolve a device name; raise SetupError, which names the option, if the device is missing."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return "cuda:0"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if name.startswith("cuda"):
        number = int(name.partition(":")[2] or 0)
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if number >= count:
            raise SetupError(
                f"{option} {name}: PyTorch {torch.__version__} found {count or 'no'} CUDA devices."
                f" Use {option} cpu, or install a driver and a CUDA build of PyTorch."
            )
        return f"cuda:{number}"
    if name == "mps" and not torch.backends.mps.is_available():
        raise SetupError(f"{option} mps: PyTorch found no Metal device. Use {option} cpu.")
    return name


def silence_libraries() -> None:
    """Disable warnings and progress bars of transformers on standard error; errors are still shown."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


@contextmanager
def progress_bars_to(loading: Stage) -> Iterator[None]:
    """Report the progress bars of transformers to a stage while weights are read."""
    from transformers.utils import logging

    stage_bar = stage_bar_class(loading)
    previous = logging.set_tqdm_hook(lambda _, args, kwargs: stage_bar(*args, **kwargs))
    try:
        yield
    finally:
        logging.set_tqdm_hook(previous)


def check_class(located: LocatedModel) -> None:
    """Raise SetupError if transformers has no image-text-to-text class for the model."""
    from transformers import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, AutoConfig, __version__

    try:
        config = AutoConfig.from_pretrained(located.folder, **OFFLINE)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(
            f"transformers {__version__} cannot read the configuration of {located.name}"
            f" ({first_line(error)}): install a newer transformers, or {ALTERNATIVES}"
        ) from error
    for part in (config, *(getattr(config, name, None) for name in config.sub_configs)):
        attention = getattr(part, "_attn_implementation", None)
        refuse_kernels(attention, f"attn_implementation in config.json of {located.name}")
    if type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        raise SetupError(
            f"{located.name} is a {config.model_type}, which is not an image-text-to-text model in"
            f" transformers {__version__}: use a vision-language model"
        )


def load_processor(located: LocatedModel, thinking: str = "auto") -> Any:
    from transformers import AutoProcessor

    try:
        processor = AutoProcessor.from_pretrained(
            located.processor_folder, padding_side="left", **OFFLINE
        )
    except ImportError as error:
        raise SetupError(
            f"the processor of {located.name} needs a library that is not installed"
            f" ({first_line(error)}). Install it with pip."
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(
            f"{located.name} has no usable processor ({first_line(error)}): download its tokenizer and"
            " preprocessor files too"
        ) from error
    if not hasattr(processor, "image_processor"):
        raise SetupError(
            f"{located.name} has no image processor (preprocessor_config.json): download the model again"
        )
    # A tokenizer without its vocabulary loads silently and maps everything to nothing.
    if not round_trips(processor.tokenizer, "chair"):
        raise SetupError(
            f"{located.name} has no usable tokenizer (tokenizer.json): download the model again"
        )
    if not processor.chat_template:
        raise SetupError(
            f"{located.name} has no chat template (chat_template.jinja): use its Instruct variant"
        )
    processor.tokenizer.padding_side = "left"
    family_of(str(located.config.get("model_type"))).thinking.check(processor, thinking)
    return processor


def load_model(located: LocatedModel, dtype: str, device: str, options: Mapping[str, Any]) -> Any:
    """Load the model in evaluation mode. Raises SetupError if it cannot be loaded completely."""
    from safetensors import SafetensorError
    from transformers import AutoModelForImageTextToText

    dtype = "float32" if dtype == "auto" and device == "cpu" else dtype
    quantization = quantization_config(options, located.config)
    if located.adapter is not None and quantization is not None:
        raise SetupError(
            f"--engine-option quantization does not work with the adapter {located.name}: omit it, or merge the adapter"
            " into its base model first"
        )
    # Passing None would override the quantization of the checkpoint.
    quantization_options = {} if quantization is None else {"quantization_config": quantization}
    try:
        model, loading = AutoModelForImageTextToText.from_pretrained(
            located.folder,
            dtype=dtype,
            device_map=options.get("device_map", device),
            attn_implementation=options.get("attn_implementation"),
            **quantization_options,
            **WEIGHTS,
        )
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        raise SetupError(
            f"{located.name} cannot be loaded on {device} as {dtype} ({first_line(error)}):"
            " download it again, choose another --dtype or --device, or use a smaller model"
        ) from error
    check_weights(located.name, loading)
    if located.adapter is not None:
        model = merge_adapter(model, located.adapter)
    return model.eval()


def check_weights(name: str, loading: Mapping[str, Any]) -> None:
    """Raise SetupError if weights are missing or have other shapes than in config.json, given transformers' report."""
    if mismatched := sorted(loading["mismatched_keys"]):
        weight, stored, expected = mismatched[0]
        raise SetupError(
            f"{name} cannot be loaded: {_and_more(weight, len(mismatched))} has the shape {[*stored]}, but config.json"
            f" describes {[*expected]}. Make them agree (after adding tokens, vocab_size), or download the model again."
        )
    if missing := sorted(loading["missing_keys"]):
        raise SetupError(f"{name} lacks {_and_more(missing[0], len(missing))}: download it again")


def _and_more(weight: str, count: int) -> str:
    return f"the weight {weight}" + (f" (and {count - 1} more)" if count > 1 else "")


def quantization_config(options: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
    """Return the quantization to apply while loading; None for the weights as they are."""
    name = options.get("quantization")
    if name is None:
        return None
    if weights.get("quantization_config"):
        raise SetupError(
            "the model's weights are already quantized: omit --engine-option quantization"
        )
    if find_spec("bitsandbytes") is None:
        raise SetupError(
            f"--engine-option quantization={name} needs bitsandbytes: pip install bitsandbytes"
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=name == "4bit", load_in_8bit=name == "8bit")


# Modules that attention implementations of transformers require.
ATTENTION_MODULES = {
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
}


def check_attention(options: Mapping[str, Any]) -> None:
    """Raise SetupError if the selected attention implementation needs a module that is not installed."""
    name = options.get("attn_implementation")
    refuse_kernels(name, "--engine-option attn_implementation")
    module = ATTENTION_MODULES.get(str(name))
    if module is not None and find_spec(module) is None:
        raise SetupError(
            f"--engine-option attn_implementation={name} needs the module {module}, which is not installed."
            " Install it, or omit the option."
        )


def refuse_kernels(attention: object, source: str) -> None:
    """Raise SetupError if an attention implementation is a repository of the hub, whose compiled code would be run."""
    if "/" in str(attention):
        raise SetupError(
            f"{source} names a repository with compiled code, {attention}, which is not run. Use an implementation of"
            " transformers, such as sdpa."
        )


def round_trips(tokenizer: Any, word: str) -> bool:
    """True if encoding and decoding a word gives the same word."""
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    return bool(tokenizer.decode(ids).strip() == word)
