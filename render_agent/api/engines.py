"""Engines of runs started from Python: a name, a loaded model, or code of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Unpack, cast

from render_agent.api.keywords import RunOptions
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Request
from render_agent.engines.make_engine import MakeEngine, describe_engine, engine_traits
from render_agent.engines.scripted import Policy, ScriptedEngine
from render_agent.engines.token_estimate import picture_tokens
from render_agent.errors import UsageError
from render_agent.options import OPTIONS, RunConfig, parse_options
from render_agent.runs.build import make_engine
from render_agent.runs.runner import DescribeEngine
from render_agent.util.reasons import short_repr

Answering = str | Engine | Policy | Callable[[Request], str] | None
"""The engine of a run: a name, an engine, or what replies to a request with a text."""

ENGINE_OPTIONS = [name for name, entry in OPTIONS.items() if entry.metadata["group"] == "engine"]

PYTHON = "python"
"""Recorded name of an engine of the user's own code."""


class LoadedEngine:
    """A model that is loaded once for several runs; made by `load_engine`.

    It is closed by `close`, at the end of its `with` block, or when a run that uses it is interrupted.
    """

    def __init__(self, engine: Engine, config: RunConfig, description: Mapping[str, Any]) -> None:
        self.engine = engine
        self.description = dict(description)
        self.closed = False
        self.options = {
            name: value
            for name in ENGINE_OPTIONS
            if (value := getattr(config, name)) != OPTIONS[name].default
        }

    def close(self) -> None:
        """Release memory, connections and processes."""
        if not self.closed:
            self.closed = True
            self.engine.close()

    def __enter__(self) -> LoadedEngine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<engine {self.description['name']}, model {self.description['model']}{closed}>"


def load_engine(
    engine: str = "transformers", model: str | None = None, **options: Unpack[RunOptions]
) -> LoadedEngine:
    """Load a model once; pass it as the `engine` of several runs and questions.

    Args:
        engine: transformers, vllm or openai.
        model: A hub name, a directory, or `small`, the bundled model.
        **options: Options of a run; `image_size` and `max_turns` determine how much memory a dialogue needs.

    Raises:
        SetupError: The model is not available.
        UsageError: An option is wrong.

    >>> import render_agent
    >>> with render_agent.load_engine(model="Qwen/Qwen3-VL-8B-Instruct") as model:  # doctest: +SKIP
    ...     for question in ("How many chairs are there?", "Is there a piano?"):
    ...         render_agent.ask("room.ply", question, engine=model)
    >>> render_agent.load_engine("scripted")
    Traceback (most recent call last):
    ...
    render_agent.errors.UsageError: the engine 'scripted' loads no model: pass its name to run or ask
    """
    if not engine_traits(engine).asks_model:
        raise UsageError(f"the engine {engine!r} loads no model: pass its name to run or ask")
    options_of_run = {"batch": True, "engine": engine, "model": model, **options}
    config = RunConfig(**parse_options(options_of_run)).absolute()
    return LoadedEngine(make_engine(config, []), config, describe_engine(config))


def _nothing() -> None:
    return


@dataclass(frozen=True)
class EngineChoice:
    """The engine of a run.

    Attributes:
        options: The options that it implies.
        describe: Gives its record in `config.json`.
        make: Makes it.
        lost: Closes an engine that outlives its run, after the run was interrupted.
        in_this_process: Whether it cannot be used by worker processes.
    """

    options: Mapping[str, Any]
    describe: DescribeEngine = describe_engine
    make: MakeEngine = make_engine
    lost: Callable[[], None] = _nothing
    in_this_process: bool = False

    def check(self, config: RunConfig) -> None:
        """UsageError if worker processes would need an engine of this process."""
        if self.in_this_process and not config.alone:
            raise UsageError(
                "an engine made in Python works in this process only: omit workers, devices and ray,"
                " or pass the name of an engine"
            )


class Kept:
    """An engine that a run does not close; all else is the engine's own, including optional methods."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def close(self) -> None:
        """Do nothing: the engine outlives its run."""


def choose_engine(engine: Answering | LoadedEngine, options: Mapping[str, Any]) -> EngineChoice:
    """Return the engine of a run with these options. UsageError if they contradict each other."""
    if engine is None or isinstance(engine, str):
        return EngineChoice({} if engine is None else {"engine": engine})
    given = {name: options[name] for name in ENGINE_OPTIONS if options.get(name) is not None}
    if isinstance(engine, LoadedEngine):
        return _loaded(engine, given)
    if given:
        raise UsageError(f"{min(given)} needs an engine given by name, not one made in Python")
    if callable(getattr(engine, "generate", None)):
        own = cast("Engine", engine)
        return _own(lambda config: cast("Engine", Kept(own)), type(engine).__name__, own.close)
    own_policy = callable(getattr(engine, "reply", None))
    policy = cast("Policy", engine if own_policy else SimpleNamespace(reply=engine))
    if not callable(policy.reply):
        raise UsageError(
            f"{short_repr(engine)} is no engine: pass the name of an engine, an engine, or a function from a"
            " request to a text"
        )
    name = getattr(engine, "__name__", type(engine).__name__)
    return _own(lambda config: _scripted(policy, config), name)


def missing_engine(model: str) -> EngineChoice:
    """Return a stand-in for the user's own engine of a resumed run; it raises UsageError if it is needed."""

    def make(config: RunConfig, questions: Sequence[Question]) -> Engine:
        raise UsageError(f"the run used an engine of your own, {model}: pass it again")

    return EngineChoice({}, make=make)


def _loaded(engine: LoadedEngine, given: Mapping[str, Any]) -> EngineChoice:
    if engine.closed:
        raise UsageError(f"{engine!r} is closed: load it again")
    for name, value in parse_options(given).items():
        if value != engine.options.get(name, OPTIONS[name].default):
            raise UsageError(f"{name} differs from that of {engine!r}: omit it")
    return EngineChoice(
        engine.options,
        lambda config: engine.description,
        lambda config, questions: cast("Engine", Kept(engine.engine)),
        engine.close,
        in_this_process=True,
    )


def _scripted(policy: Policy, config: RunConfig) -> ScriptedEngine:
    tokens = picture_tokens(str(config.model), *config.image_size)
    return ScriptedEngine(policy, picture_tokens=tokens)


def _own(
    make: Callable[[RunConfig], Engine], name: str, lost: Callable[[], None] = _nothing
) -> EngineChoice:
    """Return an engine of the user's own code, which must be passed again when the run is resumed."""
    model = f"{PYTHON}:{name}"
    return EngineChoice(
        {"engine": "scripted", "model": model},
        lambda config: {"name": PYTHON, "model": model, "note": None},
        lambda config, questions: make(config),
        lost,
        in_this_process=True,
    )
