"""`--engine transformers`: the options of a run, checked, described and passed to the in-process engine."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.engine_options import engine_options
from render_agent.engines.make_engine import EngineMaker, model_digest
from render_agent.options import OPTIONS, RunConfig
from render_agent.util.processes import count_cores

if TYPE_CHECKING:
    from render_agent.engines.transformers.model.load import LoadedModel

# Besides those in `device_facts`, those that the start check runs.
CHECKED_LIBRARIES = ("llguidance", "torchvision", "qwen_vl_utils", "triton")

# What a run with `--reproducible on` verifies before its first question; otherwise it is refused.
EXACT_CHECK = "logits of a dialogue alone and together with two others are equal bit for bit"

# Typical numbers of tokens: the instructions, the feedback of a turn, and a reply.
INSTRUCTIONS, FEEDBACK, USUAL_REPLY = 1000, 80, 200


class Transformers(EngineMaker):
    """A model in this process, run by transformers."""

    uses_server = False
    can_reproduce = True

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        from render_agent.engines.checkpoint.tool_template import check_tools
        from render_agent.engines.transformers.factory import build_checked_engine
        from render_agent.engines.transformers.model.load import open_model

        options = engine_options(config.engine_option)
        model = open_model(
            self.model_name(config),
            revision=config.revision,
            dtype=config.dtype,
            device=config.device,
            max_model_len=config.max_model_len,
            options=options,
            thinking=config.thinking,
        )
        check_tools(self.model_name(config), model.inputs.processor, workload.tools)
        tokens = estimate_dialogue_tokens(model, config, options, workload)
        return build_checked_engine(
            None if config.no_self_check else self.conditions(config),
            model,
            config.fixed_batch_size,
            options,
            tokens,
            image_size=config.image_size,
            reproducible=config.reproducible == "on",
        )

    def conditions(self, config: RunConfig) -> dict[str, Any]:
        """Return what the result of the start check depends on."""
        from render_agent.engines.checkpoint.locate import describe_model

        model = model_digest(describe_model(self.model_name(config), config.revision))
        names = [name for name, entry in OPTIONS.items() if entry.metadata["group"] == "engine"]
        options = {name: getattr(config, name) for name in (*names, "batch_size", "image_size")}
        versions = {}
        for name in CHECKED_LIBRARIES:
            with suppress(PackageNotFoundError):  # or part of a package with another name
                versions[name] = version(name)
        facts = {**device_facts(config), "libraries": versions}
        return {"model": model, "device": facts, "options": options}

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError if a requested device or library is missing."""
        from render_agent.engines.checkpoint.pretrained import (
            check_attention,
            check_names,
            choose_device,
            quantization_config,
        )
        from render_agent.engines.transformers.transformers_options import check_values

        options = engine_options(config.engine_option)
        check_values(options)
        quantization_config(options, {})
        check_attention(options)
        option = "--devices" if config.devices else "--device"
        for device in config.devices or (config.device,):
            check_names(config.dtype, device, option)
            if device not in ("auto", "cpu"):
                choose_device(device, option)

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return the metadata of the model and of how it is loaded. Raises SetupError if it cannot be loaded."""
        from render_agent.engines.checkpoint.locate import describe_model
        from render_agent.engines.families.model_families import family_of
        from render_agent.engines.transformers.transformers_options import check_options

        options = engine_options(config.engine_option)
        description = describe_model(self.model_name(config), config.revision)
        check_options(options, str(description["model_type"]))
        machine = self.machine(config)
        return {
            **description,
            "dtype": config.dtype,
            "device": config.device,
            "guided": "no" if config.no_guide else f"llguidance {version('llguidance')}",
            "reuse": options.get("reuse", family_of(str(description["model_type"])).reuse),
            **({} if machine is None else {"reproducible": {**machine, "check": EXACT_CHECK}}),
        }

    def machine(self, config: RunConfig) -> dict[str, Any] | None:
        return device_facts(config) if config.reproducible == "on" else None


TRANSFORMERS = Transformers()


def device_facts(config: RunConfig) -> dict[str, Any]:
    """Return the device and the libraries, and on a CPU the number of threads, which changes the order of sums."""
    import torch

    from render_agent.engines.checkpoint.pretrained import choose_device

    device = torch.device(choose_device((*config.devices, config.device)[0], "--device"))
    libraries = {name: version(name) for name in ("torch", "transformers")}
    if device.type == "cuda":
        name, driver = torch.cuda.get_device_name(device), nvidia_driver()
        return {"device": name, "driver": driver, "cuda": torch.version.cuda, **libraries}
    if device.type != "cpu":
        return {"device": device.type, **libraries}
    workers = config.workers if not config.devices else len(config.devices)
    threads = torch.get_num_threads() if workers == 1 else max(1, count_cores() // workers)
    name = f"{_cpu_name()}, {torch.backends.cpu.get_cpu_capability()}"
    return {"device": name, "threads": threads, **libraries}


def estimate_dialogue_tokens(
    loaded: LoadedModel, config: RunConfig, options: Mapping[str, Any], workload: Workload
) -> int:
    """Estimate the number of tokens in the KV cache for a question that uses all its turns.

    Every sample and every wording has its own row.
    """
    width, height = config.image_size
    processor = loaded.inputs.processor
    image = loaded.inputs.family.image_tokens(width, height, processor, options)
    reply = min(config.max_new_tokens, USUAL_REPLY)
    thought = min(config.thinking_budget or 0, USUAL_REPLY)
    tokens = (
        INSTRUCTIONS + workload.max_images * image + config.max_turns * (reply + FEEDBACK) + thought
    )
    return tokens * workload.dialogues_per_question


def nvidia_driver() -> str | None:
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except OSError:
        return None


def _cpu_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
