"""Loads a processor and a model with transformers, each thing that can be wrong in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from render_agent.engines.checkpoint.locate import WAY_OUT, FoundModel, fetch_model
from render_agent.engines.families.model_families import family_of
from render_agent.errors import SetupError
from render_agent.options import AUTO
from render_agent.util.display import Stage, bar_class, stage
from render_agent.util.reasons import first_line

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICE_NAME = re.compile(r"auto|cpu|mps|cuda(:\d+)?")

OFFLINE = {"local_files_only": True, "trust_remote_code": False}
"""How everything is loaded: from the files that were found, and none of them is code.

Left unsaid, transformers would ask on the terminal whether it may run what a model brings along.
"""

WEIGHTS = {**OFFLINE, "use_safetensors": True}
"""How weights are loaded: no pickle is opened."""


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A model on its device, and the processor that makes its inputs.

    top_k, top_p: how its publishers truncate sampling; 0 and 1 where they do not.
    """

    processor: Any
    model: Any
    top_k: int
    top_p: float


def check_names(dtype: str, device: str, option: str = "--device") -> None:
    """SetupError where a dtype, or a device that an option names, has a name that does not exist."""
    if dtype not in DTYPES:
        raise SetupError(f"--dtype {dtype} does not exist: use one of {', '.join(DTYPES)}")
    if not DEVICE_NAME.fullmatch(device):
        raise SetupError(f"{option} {device} does not exist: use auto, cpu, mps, cuda or cuda:N")


def load_pretrained(
    located: FoundModel, dtype: str, device: str, options: Mapping[str, Any], thinking: str = AUTO
) -> Pretrained:
    """Return a model that was found, ready to generate.

    dtype auto: the weights' own, on a CPU float32. device auto: the first GPU, else the CPU.
    options: `attn_implementation` and `device_map` as transformers takes them, and `quantization`.
    thinking: on, off or auto. SetupError where the device is not there, before weights are read, and where the model cannot be
    loaded.
    """
    from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision

    place = choose_device(device)
    cure_torchvision()
    silence_libraries()
    check_class(located)
    located = fetch_model(located)
    with (
        stage(f"loading the weights of {located.name}", announced=True) as loading,
        bars_shown_as(loading),
    ):
        processor = load_processor(located, thinking)
        model = load_model(located, dtype, place, options)
    published = model.generation_config
    top_k, top_p = published.top_k or 0, published.top_p or 1.0
    # Left as it is, a published way of sampling makes every greedy call warn.
    published.update(do_sample=False, temperature=None, top_k=None, top_p=None)
    return Pretrained(processor, model, top_k, top_p)


def choose_device(name: str, option: str = "--device") -> str:
    """Return the name of a device that is there. SetupError, which names the option, where it is not."""
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
                f"{option} {name}: PyTorch {torch.__version__} sees {count or 'no'} CUDA devices;"
                f" use {option} cpu, or install a driver and a PyTorch built for CUDA"
            )
        return f"cuda:{number}"
    if name == "mps" and not torch.backends.mps.is_available():
        raise SetupError(f"{option} mps: PyTorch sees no Metal device here; use {option} cpu")
    return name


def silence_libraries() -> None:
    """Silence the libraries' advice and progress bars on standard error; errors are still shown."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


@contextmanager
def bars_shown_as(loading: Stage) -> Iterator[None]:
    """Have the bars of transformers, as it reads weights, tell a stage how far they are."""
    from transformers.utils import logging

    made = bar_class(loading)
    before = logging.set_tqdm_hook(lambda _, positional, named: made(*positional, **named))
    try:
        yield
    finally:
        logging.set_tqdm_hook(before)


def check_class(located: FoundModel) -> None:
    """SetupError where this transformers has no image-text-to-text class for the model."""
    from transformers import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, AutoConfig, __version__

    try:
        config = AutoConfig.from_pretrained(located.folder, **OFFLINE)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(
            f"transformers {__version__} cannot read the configuration of {located.name}"
            f" ({first_line(error)}): install a newer transformers, or {WAY_OUT}"
        ) from error
    if type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        raise SetupError(
            f"{located.name} is a {config.model_type}, which is no image-text-to-text model in"
            f" transformers {__version__}: name a vision-language model"
        )


def load_processor(located: FoundModel, thinking: str = AUTO) -> Any:
    """Return the processor. SetupError where its files are not whole or it cannot chat with pictures.

    thinking: on or off where its chat template must know it, too; auto elsewhere.
    """
    from transformers import AutoProcessor

    try:
        processor = AutoProcessor.from_pretrained(located.folder, padding_side="left", **OFFLINE)
    except ImportError as error:
        raise SetupError(
            f"the processor of {located.name} needs a library that is not installed"
            f" ({first_line(error)}): install it with pip"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(
            f"{located.name} has no usable processor ({first_line(error)}): fetch its tokenizer and"
            " preprocessor files too"
        ) from error
    if not hasattr(processor, "image_processor"):
        raise SetupError(
            f"{located.name} has no image processor (preprocessor_config.json): fetch the model again"
        )
    # A tokenizer without its vocabulary loads without a word and reads nothing.
    if not reads_back(processor.tokenizer, "chair"):
        raise SetupError(
            f"{located.name} has no usable tokenizer (tokenizer.json): fetch the model again"
        )
    if not processor.chat_template:
        raise SetupError(
            f"{located.name} has no chat template (chat_template.jinja): name its Instruct variant"
        )
    processor.tokenizer.padding_side = "left"
    family_of(str(located.config.get("model_type"))).thinking.check(processor, thinking)
    return processor


def load_model(located: FoundModel, dtype: str, device: str, options: Mapping[str, Any]) -> Any:
    """Return the model with all its weights. SetupError where it cannot be."""
    from safetensors import SafetensorError
    from transformers import AutoModelForImageTextToText

    kind = "float32" if dtype == "auto" and device == "cpu" else dtype
    quantization = quantization_config(options, located.config)
    # Given as None, it would hide that the weights are quantised already.
    quantised = {} if quantization is None else {"quantization_config": quantization}
    try:
        model, loading = AutoModelForImageTextToText.from_pretrained(
            located.folder,
            dtype=kind,
            device_map=options.get("device_map", device),
            attn_implementation=options.get("attn_implementation"),
            output_loading_info=True,
            **quantised,
            **WEIGHTS,
        )
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        raise SetupError(
            f"{located.name} cannot be loaded on {device} as {kind} ({first_line(error)}):"
            " fetch it again, choose another --dtype or --device, or use a smaller model"
        ) from error
    missing = sorted(loading["missing_keys"])
    if missing:
        raise SetupError(
            f"{located.name} lacks {len(missing)} of its weights ({missing[0]} …): fetch it again"
        )
    return model.eval()


def quantization_config(options: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
    """Return how weights are quantised as they are loaded, None where they stay as they are.

    weights: the model's configuration; what is quantised already loads as it is. SetupError where
    that is asked for twice, or where bitsandbytes is not installed.
    """
    name = options.get("quantization")
    if name is None:
        return None
    if weights.get("quantization_config"):
        raise SetupError(
            "the model's weights are quantised already: leave out --engine-option quantization"
        )
    if find_spec("bitsandbytes") is None:
        raise SetupError(
            f"--engine-option quantization={name} needs bitsandbytes: pip install bitsandbytes"
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=name == "4bit", load_in_8bit=name == "8bit")


ATTENTION_MODULES = {
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
}
"""The modules that ways of computing attention need, by transformers' name of the way."""


def check_attention(options: Mapping[str, Any]) -> None:
    """Raise SetupError where the way to compute attention that an option names needs a module that is not installed."""
    name = options.get("attn_implementation")
    module = ATTENTION_MODULES.get(str(name))
    if module is not None and find_spec(module) is None:
        raise SetupError(
            f"--engine-option attn_implementation={name} needs the module {module}, which is not installed: install"
            " it, or leave the option out"
        )


def reads_back(tokenizer: Any, word: str) -> bool:
    """Whether a tokenizer gives a word back as it took it."""
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    return bool(tokenizer.decode(ids).strip() == word)
