"""The values of `--engine`: how each is checked, described in the run's metadata, and built.

Packages add engines through an entry point: a callable that takes the run options and the questions. It may have a
`describe(config)` method. No engine imports its library before it is built or described.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.engine_options import engine_options
from render_agent.errors import SetupError, UsageError
from render_agent.extras import require
from render_agent.options import DEFAULT_MODEL, RunConfig
from render_agent.tasks.choice import Choice
from render_agent.tasks.input_files import Digests, InputFile, digest_of
from render_agent.tasks.selection import question_files, undivided_questions
from render_agent.util.processes import count_cores

# Keys of SHA-256 digests in the metadata of an engine: a local model's files, and the code of an engine in Python.
FINGERPRINTS = ("weights", "processor", "adapter", "source")

# What a run with `--reproducible on` verifies before its first question; otherwise it is refused.
EXACT_CHECK = "logits of a dialogue alone and together with two others are equal bit for bit"


class EngineMaker(Choice):
    """A value of `--engine`: its properties, and the call that builds the engine.

    The defaults apply to engines of packages, which are functions of the options and the questions.
    """

    default_model = DEFAULT_MODEL
    can_reproduce = False
    """True if the engine supports `--reproducible on`."""
    uses_model = True
    """True if a model answers, rather than a rule or a person."""
    uses_server = True
    """True if it uses `--base-url`."""
    loads_weights = True
    """True if the model is loaded into this process, so that it may need a GPU."""
    has_options = True
    """True if it has engine options."""
    supports_scoring = True
    """True if it can return log-probabilities of given replies."""
    single_sample = False
    """True if it supports only one sample per turn."""
    resumable = True
    """True if a run can be resumed."""
    has_batch_jobs = False
    """True if it supports `--batch-jobs`."""

    def model_name(self, config: RunConfig) -> str:
        """Return the selected model, or the engine's default."""
        return config.model or self.default_model

    def code_file(self, config: RunConfig) -> str | None:
        """Return the Python file that would run as the model, or None."""
        return None

    def servers(self, config: RunConfig) -> Sequence[tuple[str, Callable[[], Engine]]]:
        """Return the URL of each server, and what creates an engine for it alone; none by default."""
        return ()

    def machine(self, config: RunConfig) -> dict[str, Any] | None:
        """Return what the replies of a reproducible run depend on besides its options; None for other runs."""
        return None


class Transformers(EngineMaker):
    """A model in this process, run by transformers."""

    uses_server = False
    can_reproduce = True

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Load the model and return the engine. Raises SetupError if the model cannot be loaded."""
        from render_agent.engines.checkpoint.tool_template import check_tools
        from render_agent.engines.transformers.factory import build_engine, estimate_dialogue_tokens
        from render_agent.engines.transformers.model.load import open_model

        options = engine_options(config.engine_option)
        model = open_model(
            self.model_name(config),
            revision=config.revision,
            dtype=config.dtype,
            device=config.device,
            max_model_len=config.max_model_len,
            tensor_parallel=config.tensor_parallel,
            options=options,
            thinking=config.thinking,
        )
        check_tools(self.model_name(config), model.inputs.processor, workload.tools)
        tokens = estimate_dialogue_tokens(model, config, options, workload)
        rows = config.fixed_batch_size
        return build_engine(
            model,
            rows,
            options,
            tokens,
            image_size=config.image_size,
            reproducible=config.reproducible == "on",
        )

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
        from render_agent.engines.transformers.transformers_options import (
            check_options,
            reject_tensor_parallel,
        )

        options = engine_options(config.engine_option)
        reject_tensor_parallel(config.tensor_parallel)
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
        """Return the device and the libraries, and on a CPU the number of threads, which changes the order of sums."""
        if config.reproducible != "on":
            return None
        import torch

        from render_agent.engines.checkpoint.pretrained import choose_device

        device = torch.device(choose_device((*config.devices, config.device)[0], "--device"))
        libraries = {name: version(name) for name in ("torch", "transformers")}
        if device.type == "cuda":
            name, driver = torch.cuda.get_device_name(device), _nvidia_driver()
            return {"device": name, "driver": driver, "cuda": torch.version.cuda, **libraries}
        if device.type != "cpu":
            return {"device": device.type, **libraries}
        workers = config.workers if not config.devices else len(config.devices)
        threads = torch.get_num_threads() if workers == 1 else max(1, count_cores() // workers)
        name = f"{_cpu_name()}, {torch.backends.cpu.get_cpu_capability()}"
        return {"device": name, "threads": threads, **libraries}


def _nvidia_driver() -> str | None:
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


class Vllm(EngineMaker):
    """A model in this process, run by vLLM."""

    uses_server = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Load the model and return the engine. Raises SetupError if the model cannot be loaded."""
        from render_agent.engines.checkpoint.tool_template import check_tools
        from render_agent.engines.vllm.arguments import vllm_options
        from render_agent.engines.vllm.vllm_engine import VllmEngine

        options = vllm_options(config, engine_options(config.engine_option), workload.max_images)
        engine = VllmEngine(self.model_name(config), revision=config.revision, options=options)
        try:
            check_tools(self.model_name(config), engine.prompts.processor, workload.tools)
        except SetupError:
            engine.close()
            raise
        return engine

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return the metadata of the model. Raises SetupError if vLLM or the model is missing."""
        from render_agent.engines.checkpoint.locate import (
            describe_located,
            find_model,
            reject_adapter,
        )
        from render_agent.engines.vllm.arguments import require_vllm, vllm_version

        require_vllm()
        located = find_model(self.model_name(config), config.revision)
        reject_adapter(located, "--engine vllm")
        return {
            **describe_located(located),
            "vllm": vllm_version(),
            "dtype": config.dtype,
            "device": config.device,
            "engine_options": engine_options(config.engine_option),
        }


class Scripted(EngineMaker):
    """A rule-based policy instead of a model."""

    default_model = "explorer"
    uses_model = uses_server = loads_weights = has_options = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Return the engine for a named policy or a policy file. Raises SetupError if it does not exist."""
        from render_agent.engines.scripted.scripted_engine import BATCH_SIZE, make_scripted

        size = config.fixed_batch_size or BATCH_SIZE
        if config.shard is not None:  # so that a fitted policy is that of the undivided run
            shard = {question.id: question for question in questions}
            questions = [shard.pop(q.id, q) for q in undivided_questions(config)]
            questions += shard.values()  # counterparts
        return make_scripted(self.model_name(config), questions, config.seed, size, config)

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise UsageError if a policy without beliefs would be probed for them."""
        name = self.model_name(config)
        is_registered = name in registry.names("scripted policy")
        policy = registry.load("scripted policy", name) if is_registered else None
        has_none = not getattr(policy, "answers_probes", True) or name.endswith((".json", ".jsonl"))
        if config.probe and has_none:
            raise UsageError(
                f"--probe {','.join(config.probe)} asks for beliefs, which the policy {name} does not have. Omit it,"
                " or pass a model or a policy with a method believe."
            )

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return the policy's note for result pages. Raises SetupError if the policy does not exist."""
        from render_agent.engines.scripted.load_policy import find_policy

        return {"note": getattr(find_policy(self.model_name(config)), "note", None)}

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Yield the file of the policy and the local modules that it imports, and the questions of the other shards.

        For a named policy that answers from object boxes, these are the annotation files.
        """
        from render_agent.engines.scripted.load_policy import policy_files
        from render_agent.tasks.input_files import annotation_files

        if config.shard is not None:
            for file in question_files(config):
                yield InputFile("questions", str(file), "question file", digest_of(file))
        name = self.model_name(config)
        if name not in registry.names("scripted policy"):
            yield from policy_files(name)
        elif getattr(registry.load("scripted policy", name), "knows_boxes", False):
            yield from annotation_files(config, questions)

    def code_file(self, config: RunConfig) -> str | None:
        """Return the policy's Python file; None for a named policy or a file of replies."""
        name = self.model_name(config)
        is_code = Path(name).suffix == ".py" and name not in registry.names("scripted policy")
        return name if is_code else None


class Human(EngineMaker):
    """A person in the browser."""

    default_model = "person"
    uses_model = uses_server = loads_weights = has_options = False
    single_sample = True

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Serve the page and return the engine. Raises SetupError if the port is in use."""
        from render_agent.engines.human.human_engine import HumanEngine

        turns, name = config.max_turns, self.model_name(config)
        return HumanEngine(questions, workload.kinds, turns, port=config.port, name=name)

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise UsageError if several worker processes are requested: each would serve its own page."""
        if not config.alone:
            raise UsageError(
                "--engine human runs in a single process. Omit --workers, --devices and --ray."
            )

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return the name of the person. Raises UsageError as `check`, SetupError if the port is in use."""
        self.check(config, questions)
        require("--engine human", "starlette", "uvicorn")
        if config.port:  # fail before the run folder is created
            from render_agent.util.web.server import LocalServer

            LocalServer(config.port).close()
        return {"note": f"answered in the browser by: {self.model_name(config)}"}


class Mcp(EngineMaker):
    """The client of `render-agent mcp`. It calls the server, so no other run can use it."""

    default_model = "client"
    uses_model = uses_server = loads_weights = has_options = False
    single_sample = True
    resumable = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Raise UsageError."""
        raise UsageError(
            "--engine mcp is the client of a session, which begins with: render-agent mcp. Sessions are not resumed."
        )

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise UsageError."""
        self(config, (), Workload(0))


TRANSFORMERS, VLLM, SCRIPTED, HUMAN, MCP = Transformers(), Vllm(), Scripted(), Human(), Mcp()


def engine_maker(name: str) -> Any:
    """Return the `EngineMaker` or the function of a package for an engine. Raises SetupError if it does not exist."""
    return registry.load("engine", name)


def engine_traits(name: str) -> EngineMaker:
    """Return the properties of an engine. Those of packages have the defaults, and are not imported."""
    maker = engine_maker(name) if name in registry.built_in("engine") else EngineMaker()
    assert isinstance(maker, EngineMaker)
    return maker


def reject_code(config: RunConfig, source: str) -> None:
    """Raise UsageError if a file, `source`, selects a Python file as the model."""
    if code := engine_traits(config.engine).code_file(config):
        raise UsageError(
            f"{source} sets the model to a program, {code}, which is not run without consent. Pass"
            f" --model {code} or --allow-code to run it."
        )


def describe_engine(config: RunConfig) -> dict[str, Any]:
    """Return the engine's metadata for the run record, without loading any weights."""
    options = engine_options(config.engine_option)
    if options and not engine_traits(config.engine).has_options:
        raise UsageError(
            f"--engine-option {next(iter(options))} does not exist for --engine {config.engine}. Omit it."
        )
    package = registry.package("engine", config.engine)
    describe = getattr(engine_maker(config.engine), "describe", None)
    model = (
        engine_traits(config.engine).model_name(config)
        if package is None
        else config.model or config.engine
    )
    return {
        "name": config.engine,
        "model": model,
        **({} if package is None else {"package": package}),
        **(describe(config) if callable(describe) else {}),
    }


def start_engine(config: RunConfig, questions: Sequence[Question], workload: Workload) -> Engine:
    """Build the selected engine and load its model."""
    engine_options(config.engine_option)
    maker = engine_maker(config.engine)
    extra_arguments = (workload,) if isinstance(maker, EngineMaker) else ()
    engine: Engine = maker(config, questions, *extra_arguments)
    return engine


EngineFactory = Callable[[RunConfig, Sequence[Question]], Engine]


def model_digest(description: Mapping[str, Any]) -> str | None:
    """Return what identifies the files of a model, from the engine's metadata in the run record.

    These are the SHA-256 digests of a local model, or the commit of one from the hub; None for other models.
    """
    # The base model of an adapter can come from the hub.
    names = ("revision", *FINGERPRINTS) if description.get("adapter") else FINGERPRINTS
    digests = [description[name] for name in names if description.get(name) is not None]
    return " ".join(digests) or description.get("revision")


def model_file(config: RunConfig, digests: Digests) -> InputFile | None:
    """Return the current state of a local model; None if the run has none."""
    from render_agent.engines.checkpoint.locate import describe_model

    traits = engine_traits(config.engine)
    model = traits.model_name(config)
    digest = digests.get(model)
    # the files of a commit on the hub do not change
    if not traits.loads_weights or digest is None or "sha256:" not in digest:
        return None
    number = len(digest.split())  # old runs recorded only the weights
    current_digest = " ".join((model_digest(describe_model(model)) or "").split()[:number])
    return InputFile("models", model, "model", current_digest)
