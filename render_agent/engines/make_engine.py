"""The engines of `--engine`: their checks, what a run records of each, and how it is built.

An engine of a package is named by an entry point, too: it is called with the options and the questions, may have
`describe(config)`, and may be a Choice. None of these imports its library before it is built or described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.engine_options import engine_options
from render_agent.errors import SetupError, UsageError
from render_agent.extras import require
from render_agent.options import DEFAULT_MODEL, RunConfig
from render_agent.tasks.choice import Choice
from render_agent.tasks.input_files import InputFile

FINGERPRINTS = ("weights", "processor")
"""What a run records of the files of a model that lies on disk."""


class EngineMaker(Choice):
    """A value of `--engine`: its properties, and the call that makes the engine.

    The defaults hold for the engines of packages, which are functions of the options and the questions.
    """

    default_model = DEFAULT_MODEL
    asks_model = True
    """True if a model answers, which takes tokens: neither a rule nor a person."""
    asks_server = True
    """True if it reads `--base-url`."""
    holds_weights = True
    """True if the model is in this process, so that it may need a GPU."""
    has_options = True
    """True if it has options that `--engine-option` sets."""
    gives_probabilities = True
    """True if it gives the log-probabilities of replies."""
    gives_one_reply = False
    """True if it can give only one reply per turn."""

    def model_of(self, config: RunConfig) -> str:
        """Return the model that the options name, or the default of the engine."""
        return config.model or self.default_model

    def code_of(self, config: RunConfig) -> str | None:
        """Return the Python file that would be run as the model; None if there is none."""
        return None


class Transformers(EngineMaker):
    """A model in this process, by transformers."""

    asks_server = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Return the engine, its model loaded. SetupError where that is impossible."""
        from render_agent.engines.transformers.factory import dialogue_tokens, engine_of
        from render_agent.engines.transformers.model.load import open_model

        options = engine_options(config.engine_option)
        loaded = open_model(
            self.model_of(config),
            revision=config.revision,
            dtype=config.dtype,
            device=config.device,
            max_model_len=config.max_model_len,
            tensor_parallel=config.tensor_parallel,
            options=options,
            thinking=config.thinking,
        )
        tokens = dialogue_tokens(loaded, config, options, workload)
        rows = config.fixed_batch_size
        return engine_of(loaded, rows, options, tokens, picture_size=config.image_size)

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError where a device or a library that was named is not there."""
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
        """Return its model's files and how they are loaded. SetupError where that cannot be."""
        from render_agent.engines.checkpoint.locate import describe_model
        from render_agent.engines.families.model_families import family_of
        from render_agent.engines.transformers.transformers_options import (
            check_options,
            refuse_tensor_parallel,
        )

        options = engine_options(config.engine_option)
        refuse_tensor_parallel(config.tensor_parallel)
        described = describe_model(self.model_of(config), config.revision)
        check_options(options, str(described["model_type"]))
        return {
            **described,
            "dtype": config.dtype,
            "device": config.device,
            "guided": "no" if config.no_guide else f"llguidance {version('llguidance')}",
            "reuse": options.get("reuse", family_of(str(described["model_type"])).reuse),
        }


class Vllm(EngineMaker):
    """A model in this process, by vLLM."""

    asks_server = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Return the engine, its model loaded. SetupError where that is impossible."""
        from render_agent.engines.vllm.arguments import options_of
        from render_agent.engines.vllm.vllm_engine import VllmEngine

        options = options_of(config, engine_options(config.engine_option), workload.pictures)
        return VllmEngine(self.model_of(config), revision=config.revision, options=options)

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return its model's files. SetupError where vLLM or the model is not at hand."""
        from render_agent.engines.checkpoint.locate import describe_model
        from render_agent.engines.vllm.arguments import require_vllm, vllm_version

        require_vllm()
        return {
            **describe_model(self.model_of(config), config.revision),
            "vllm": vllm_version(),
            "dtype": config.dtype,
            "device": config.device,
            "engine_options": engine_options(config.engine_option),
        }


class OpenAI(EngineMaker):
    """A server that speaks OpenAI's protocol."""

    holds_weights = False
    gives_probabilities = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Return the engine. SetupError where a server cannot be reached or lacks the model."""
        from render_agent.engines.openai.openai_engine import make

        return make(config, self.model_of(config), engine_options(config.engine_option))

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return its servers, and what they serve. SetupError where one cannot be reached."""
        from render_agent.engines.openai.openai_engine import describe

        return describe(config, self.model_of(config), engine_options(config.engine_option))


class Scripted(EngineMaker):
    """Replies by rule."""

    default_model = "explorer"
    asks_model = asks_server = holds_weights = has_options = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Return the engine of a named policy or of a file. SetupError where there is none."""
        from render_agent.engines.scripted.scripted_engine import BATCH_SIZE, make_scripted

        size = config.fixed_batch_size or BATCH_SIZE
        return make_scripted(self.model_of(config), questions, config.seed, size, config)

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return what must be said of its policy. SetupError where there is none."""
        from render_agent.engines.scripted.load_policy import policy_maker

        return {"note": getattr(policy_maker(self.model_of(config)), "note", None)}

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give the files of boxes, where the policy answers from them."""
        from render_agent.tasks.input_files import annotation_files

        name = self.model_of(config)
        if name not in registry.names("scripted policy"):
            return ()
        policy = registry.load("scripted policy", name)
        knows = getattr(policy, "knows_boxes", False)
        return annotation_files(config, questions) if knows else ()

    def code_of(self, config: RunConfig) -> str | None:
        """Return the file of the policy; None for a named policy or a file of replies."""
        name = self.model_of(config)
        is_code = name.endswith(".py") and name not in registry.names("scripted policy")
        return name if is_code else None


class Human(EngineMaker):
    """A person in the browser."""

    default_model = "person"
    asks_model = asks_server = holds_weights = has_options = False
    gives_one_reply = True

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Return the engine, its page already served. SetupError where the port is taken."""
        from render_agent.engines.human.human_engine import HumanEngine

        turns, name = config.max_turns, self.model_of(config)
        return HumanEngine(questions, workload.kinds, turns, port=config.port, name=name)

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise UsageError where several processes are asked for: each would have a page of its own."""
        if not config.alone:
            raise UsageError(
                "--engine human asks one person on one page: leave --workers, --devices and --ray out"
            )

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return who answered. UsageError as in `check`, SetupError where the port is taken."""
        self.check(config, questions)
        require("--engine human", "starlette", "uvicorn")
        if config.port:  # said before there is a run folder
            from render_agent.util.web.server import LocalServer

            LocalServer(config.port).close()
        return {"note": f"answered in the browser by: {self.model_of(config)}"}


TRANSFORMERS, VLLM, OPENAI, SCRIPTED, HUMAN = Transformers(), Vllm(), OpenAI(), Scripted(), Human()


def engine_maker(name: str) -> Any:
    """Return what makes an engine: an `EngineMaker`, or the function of a package. SetupError if there is none."""
    return registry.load("engine", name)


def engine_traits(name: str) -> EngineMaker:
    """Return the properties of an engine; a package's has the defaults, and is not imported."""
    maker = engine_maker(name) if name in registry.built_in("engine") else EngineMaker()
    assert isinstance(maker, EngineMaker)
    return maker


def refuse_code(config: RunConfig, where: str) -> None:
    """Raise UsageError if the options name a policy's Python file; where: the file that names it."""
    if code := engine_traits(config.engine).code_of(config):
        raise UsageError(
            f"{where} names a program, {code}, as the model: it is run only where --model {code} or --allow-code"
            " is typed"
        )


def describe_engine(config: RunConfig) -> dict[str, Any]:
    """Return what a run records of its engine, read without loading any weights.

    SetupError where there is no such engine or its model is not at hand, UsageError for an option that it
    does not have.
    """
    options = engine_options(config.engine_option)
    if options and not engine_traits(config.engine).has_options:
        raise UsageError(
            f"--engine-option {next(iter(options))} does not exist for --engine {config.engine}: leave it out"
        )
    package = registry.package("engine", config.engine)
    describe = getattr(engine_maker(config.engine), "describe", None)
    model = (
        engine_traits(config.engine).model_of(config)
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
    """Make an engine, its model loaded. SetupError if that is impossible."""
    engine_options(config.engine_option)
    maker = engine_maker(config.engine)
    more = (workload,) if isinstance(maker, EngineMaker) else ()
    engine: Engine = maker(config, questions, *more)
    return engine


MakeEngine = Callable[[RunConfig, Sequence[Question]], Engine]


def check_model(config: RunConfig, recorded: Mapping[str, Any], run: str) -> None:
    """SetupError where the files of a model that lies on disk are not those that a run began with.

    recorded: what the run holds of its engine. run: its name.
    """
    from render_agent.engines.checkpoint.locate import describe_model

    model = engine_traits(config.engine).model_of(config)
    known = {name: recorded[name] for name in FINGERPRINTS if recorded.get(name) is not None}
    if known and known != {name: describe_model(model)[name] for name in known}:
        raise SetupError(
            f"{model} is not the model that {run} began with (its SHA-256 differs): restore"
            " it, or start a new run"
        )
