"""The values of `--engine`: how each is checked, described in the run's metadata, and built.

Packages add engines through an entry point: a callable that takes the run options and the questions. It may have a
`describe(config)` method. No engine imports its library before it is built or described.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.engine_options import engine_options
from render_agent.errors import UsageError
from render_agent.options import DEFAULT_MODEL, RunConfig
from render_agent.tasks.input_files import Choice, Digests, InputFile

# Keys of SHA-256 digests in the metadata of an engine: a local model's files, and the code of an engine in Python.
FINGERPRINTS = ("weights", "processor", "adapter", "source")


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
        """Return the device and libraries that replies of a reproducible run depend on; None for other runs."""
        return None


class Mcp(EngineMaker):
    """The client of `render-agent mcp`. It calls the server, so no other run can use it."""

    default_model = "client"
    uses_model = uses_server = loads_weights = has_options = False
    single_sample = True
    resumable = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        raise UsageError(
            "--engine mcp is the client of a session, which begins with: render-agent mcp. Sessions are not resumed."
        )

    def check_at_hand(self, config: RunConfig) -> None:
        self(config, (), Workload(0))


MCP = Mcp()


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
    return InputFile("models", model, current_digest)
