"""The engines of `--engine`: their checks, what a run records of each, and how it is built.

An engine of a package is named by an entry point, too: it is called with the options and the questions, may have
`describe(config)`, and may be a Choice. None of these imports its library before it is built or described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from render_agent import registry
from render_agent.config import RunConfig
from render_agent.config.choice import Choice, InputFile
from render_agent.config.engine import DEFAULT_MODEL
from render_agent.dialogue.question import Question
from render_agent.engines.engine_options import engine_options
from render_agent.errors import SetupError, UsageError
from render_agent.extras import require

if TYPE_CHECKING:
    from render_agent.engines.engine import Engine

FINGERPRINTS = ("weights", "processor")
"""What a run records of the files of a model that lies on disk."""


class BuiltIn(Choice):
    """A built-in engine as a choice: its properties, and the call that builds it from the options and the questions."""

    default_model = DEFAULT_MODEL
    asks_model = True
    """Whether a model answers: neither a rule nor a person."""
    holds_weights = True
    """Whether the model is held in this process, so that it may need a GPU."""
    gives_probabilities = True
    """Whether it says how likely what a model could write is."""
    gives_one_reply = False
    """Whether it can give one reply a turn only."""


class Transformers(BuiltIn):
    """A model in this process, by transformers."""

    def __call__(self, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Return the engine, its model loaded. SetupError where that is impossible."""
        from render_agent.engines.transformers.factory import dialogue_tokens, engine_of
        from render_agent.engines.transformers.model.load import open_model

        options = engine_options(config.engine_option)
        loaded = open_model(
            config.model_name,
            revision=config.revision,
            dtype=config.dtype,
            device=config.device,
            max_model_len=config.max_model_len,
            tensor_parallel=config.tensor_parallel,
            options=options,
            thinking=config.thinking,
        )
        tokens, rows = dialogue_tokens(loaded, config, options), config.fixed_batch_size
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
        described = describe_model(config.model_name, config.revision)
        check_options(options, str(described["model_type"]))
        return {
            **described,
            "dtype": config.dtype,
            "device": config.device,
            "guided": "no" if config.no_guide else f"llguidance {version('llguidance')}",
            "reuse": options.get("reuse", family_of(str(described["model_type"])).reuse),
        }


class Vllm(BuiltIn):
    """A model in this process, by vLLM."""

    def __call__(self, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Return the engine, its model loaded. SetupError where that is impossible."""
        from render_agent.engines.vllm.arguments import options_of
        from render_agent.engines.vllm.vllm_engine import VllmEngine

        options = options_of(config, engine_options(config.engine_option))
        return VllmEngine(config.model_name, revision=config.revision, options=options)

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return its model's files. SetupError where vLLM or the model is not at hand."""
        from render_agent.engines.checkpoint.locate import describe_model
        from render_agent.engines.vllm.arguments import require_vllm, vllm_version

        require_vllm()
        return {
            **describe_model(config.model_name, config.revision),
            "vllm": vllm_version(),
            "dtype": config.dtype,
            "device": config.device,
            "engine_options": engine_options(config.engine_option),
        }


class OpenAI(BuiltIn):
    """A server that speaks OpenAI's protocol."""

    holds_weights = False
    gives_probabilities = False

    def __call__(self, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Return the engine. SetupError where a server cannot be reached or lacks the model."""
        from render_agent.engines.openai.openai_engine import make

        return make(config, engine_options(config.engine_option))

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return its servers, and what they serve. SetupError where one cannot be reached."""
        from render_agent.engines.openai.openai_engine import describe

        return describe(config, engine_options(config.engine_option))


class Scripted(BuiltIn):
    """Replies by rule."""

    default_model = "explorer"
    asks_model = False
    holds_weights = False

    def __call__(self, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Return the engine of a named policy or of a file. SetupError where there is none."""
        from render_agent.engines.scripted.scripted_engine import BATCH_SIZE, make_scripted

        size = config.fixed_batch_size or BATCH_SIZE
        return make_scripted(config.model_name, questions, config.seed, size, config)

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return what must be said of its policy. SetupError where there is none."""
        from render_agent.engines.scripted.load_policy import policy_maker

        return {"note": getattr(policy_maker(config.model_name), "note", None)}

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give the files of boxes, where the policy answers from them."""
        from render_agent.tasks.input_files import annotation_files

        if config.model_name not in registry.names("scripted policy"):
            return ()
        policy = registry.load("scripted policy", config.model_name)
        knows = getattr(policy, "knows_boxes", False)
        return annotation_files(config, questions) if knows else ()


class Human(BuiltIn):
    """A person in the browser."""

    default_model = "person"
    asks_model = False
    holds_weights = False
    gives_one_reply = True

    def __call__(self, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Return the engine, its page already served. SetupError where the port is taken."""
        from render_agent.engines.human.human_engine import HumanEngine

        kinds = config.kinds if config.free else ()
        turns, name = config.max_turns, config.model_name
        return HumanEngine(questions, kinds, turns, port=config.port, name=name)

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
        return {"note": f"answered in the browser by: {config.model_name}"}


TRANSFORMERS, VLLM, OPENAI, SCRIPTED, HUMAN = Transformers(), Vllm(), OpenAI(), Scripted(), Human()


def engine_choice(config: RunConfig) -> Choice:
    """Return the engine that the options name as a choice; a package's may be one, and need not.

    SetupError where there is no such engine.
    """
    maker = registry.load("engine", config.engine)
    return maker if isinstance(maker, Choice) else Choice()


def describe_engine(config: RunConfig) -> dict[str, Any]:
    """Return what a run records of its engine, read without loading any weights.

    SetupError where there is no such engine or its model is not at hand, UsageError for an option that it
    does not have.
    """
    options = engine_options(config.engine_option)
    if options and isinstance(engine_choice(config), Scripted | Human):
        raise UsageError(
            f"--engine-option {next(iter(options))} does not exist for --engine {config.engine}: leave it out"
        )
    package = registry.package("engine", config.engine)
    describe = getattr(registry.load("engine", config.engine), "describe", None)
    model = config.model_name if package is None else config.model or config.engine
    return {
        "name": config.engine,
        "model": model,
        **({} if package is None else {"package": package}),
        **(describe(config) if callable(describe) else {}),
    }


def make_engine(config: RunConfig, questions: Sequence[Question]) -> Engine:
    """Return the engine, its model loaded. SetupError where that is impossible."""
    engine_options(config.engine_option)
    engine: Engine = registry.load("engine", config.engine)(config, questions)
    return engine


MakeEngine = Callable[[RunConfig, Sequence[Question]], "Engine"]


def check_model(config: RunConfig, recorded: Mapping[str, Any], run: str) -> None:
    """SetupError where the files of a model that lies on disk are not those that a run began with.

    recorded: what the run holds of its engine. run: its name.
    """
    from render_agent.engines.checkpoint.locate import describe_model

    known = {name: recorded[name] for name in FINGERPRINTS if recorded.get(name) is not None}
    if known and known != {name: describe_model(config.model_name)[name] for name in known}:
        raise SetupError(
            f"{config.model_name} is not the model that {run} began with (its SHA-256 differs): restore"
            " it, or start a new run"
        )
