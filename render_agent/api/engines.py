"""Engines for runs started from Python: an engine name, a loaded model, or custom code."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Unpack, cast

from render_agent.api.keywords import RunOptions
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Request
from render_agent.engines.make_engine import (
    EngineFactory,
    EngineMaker,
    describe_engine,
    engine_traits,
)
from render_agent.engines.scripted import BATCH_SIZE, Policy, ScriptedEngine
from render_agent.engines.sight_check import (
    CheckServers,
    SightRecord,
    check_servers,
    worst_finding,
)
from render_agent.engines.token_estimate import image_tokens
from render_agent.errors import UsageError
from render_agent.options import OPTIONS, RunConfig, parse_options
from render_agent.runs.build import make_engine
from render_agent.runs.runner import DescribeEngine
from render_agent.util.coroutines import run_in_thread
from render_agent.util.reasons import short_repr

# Values of `engine`, described in `ask`. None selects the default engine.
Answering = (
    str
    | Engine
    | Policy
    | Callable[[Request], str]
    | Callable[[Request], Awaitable[str]]
    | Callable[[list[Request]], Sequence[str]]
    | None
)

ENGINE_OPTIONS = [name for name, entry in OPTIONS.items() if entry.metadata["group"] == "engine"]

PYTHON = "python"  # name recorded for engines from custom code


class LoadedEngine:
    """A model loaded once for several runs, created by `load_engine`.

    Closed by `close`, at the end of a `with` block, or if a run that uses it is interrupted.
    """

    def __init__(self, engine: Engine, config: RunConfig, description: Mapping[str, Any]) -> None:
        self.engine = engine
        self.description = dict(description)
        self.closed = False
        self._sight: dict[tuple[int, int], list[SightRecord]] = {}
        self.options = {
            name: value
            for name in ENGINE_OPTIONS
            if (value := getattr(config, name)) != OPTIONS[name].default
        }

    def check_servers(self, maker: EngineMaker, config: RunConfig) -> list[SightRecord]:
        """Return the result of the sight check for each server; it is repeated for other image sizes, and after faults."""
        checks = self._sight.get(config.image_size) or check_servers(maker, config)
        if worst_finding(checks) != "unknown":
            self._sight[config.image_size] = checks
        return checks

    def close(self) -> None:
        """Free memory, connections and processes."""
        if not self.closed:
            self.closed = True
            self.engine.close()

    def __enter__(self) -> LoadedEngine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        suffix = ", closed" if self.closed else ""
        return f"<engine {self.description['name']}, model {self.description['model']}{suffix}>"


def load_engine(
    engine: str = "transformers", model: str | None = None, **options: Unpack[RunOptions]
) -> LoadedEngine:
    """Load a model once, to pass as `engine` to several runs and questions.

    Args:
        engine: transformers, vllm or openai.
        model: A Hugging Face model name, a directory, or `small`, the bundled model.
        **options: Options of a run. `image_size` and `max_turns` determine the memory per dialogue.

    Returns:
        The engine with the loaded model.

    Raises:
        SetupError: The model is not available.
        UsageError: An option is invalid.

    >>> import render_agent
    >>> with render_agent.load_engine(model="Qwen/Qwen3-VL-8B-Instruct") as model:  # doctest: +SKIP
    ...     for question in ("How many chairs are there?", "Is there a piano?"):
    ...         render_agent.ask("room.ply", question, engine=model)
    >>> render_agent.load_engine("scripted")
    Traceback (most recent call last):
    ...
    render_agent.errors.UsageError: the engine 'scripted' does not load a model. Pass its name to run or ask.
    """
    if not engine_traits(engine).uses_model:
        raise UsageError(
            f"the engine {engine!r} does not load a model. Pass its name to run or ask."
        )
    options_of_run = {"batch": True, "engine": engine, "model": model, **options}
    config = RunConfig(**parse_options(options_of_run)).absolute()
    return LoadedEngine(make_engine(config, []), config, describe_engine(config))


@dataclass(frozen=True)
class EngineChoice:
    """The engine of a run."""

    options: Mapping[str, Any]
    describe: DescribeEngine = describe_engine
    make: EngineFactory = make_engine
    check_servers: CheckServers = check_servers
    """Returns the result of the sight check for each server."""
    on_interrupt: Callable[[], None] = lambda: None
    """Closes an engine that outlives its run, when the run is interrupted."""
    in_this_process: bool = False  # True if worker processes cannot use the engine

    def check(self, config: RunConfig) -> None:
        """Raise UsageError if worker processes would need an engine of this process."""
        if self.in_this_process and not config.alone:
            raise UsageError(
                "an engine created in Python works only in this process. Omit workers, devices and ray,"
                " or pass the name of an engine."
            )


class SharedEngine:
    """Delegates to an engine, including its optional methods, without owning it: `close` has no effect."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def close(self) -> None:
        """Do nothing, because the engine outlives its run."""


def choose_engine(engine: Answering | LoadedEngine, options: Mapping[str, Any]) -> EngineChoice:
    """Return the engine for a run with these options. Raises UsageError if they are inconsistent."""
    if engine is None or isinstance(engine, str):
        return EngineChoice({} if engine is None else {"engine": engine})
    engine_options = {
        name: options[name] for name in ENGINE_OPTIONS if options.get(name) is not None
    }
    if isinstance(engine, LoadedEngine):
        return _choose_loaded_engine(engine, engine_options)
    if engine_options:
        raise UsageError(
            f"{min(engine_options)} needs an engine given by name, not one created in Python"
        )
    if callable(getattr(engine, "generate", None)):
        custom_engine = cast("Engine", engine)
        return _choose_custom_engine(
            lambda config: cast("Engine", SharedEngine(custom_engine)),
            type(engine).__name__,
            type(engine),
            custom_engine.close,
        )
    is_policy = any(callable(getattr(engine, name, None)) for name in ("reply", "reply_all"))
    policy = cast("Policy", engine if is_policy else function_policy(engine))
    if not is_policy and not callable(engine):
        raise UsageError(
            f"{short_repr(engine)} is not an engine. Pass the name of an engine, an engine, or a function from a"
            " request to a text."
        )
    name = getattr(engine, "__name__", type(engine).__name__)
    code = engine if inspect.isroutine(engine) else type(engine)
    return _choose_custom_engine(
        lambda config: _make_scripted_engine(policy, config, f"the engine {name}"), name, code
    )


def missing_engine(model: str) -> EngineChoice:
    """Return a stand-in for the custom engine of a resumed run. It raises UsageError when used."""

    def make(config: RunConfig, questions: Sequence[Question]) -> Engine:
        raise UsageError(f"the run used the custom engine {model}. Pass it again to resume.")

    return EngineChoice({}, make=make)


def _choose_loaded_engine(engine: LoadedEngine, engine_options: Mapping[str, Any]) -> EngineChoice:
    if engine.closed:
        raise UsageError(f"{engine!r} is closed. Load it again.")
    for name, value in parse_options(engine_options).items():
        if value != engine.options.get(name, OPTIONS[name].default):
            raise UsageError(f"{name} differs from {engine!r}. Omit it.")
    return EngineChoice(
        engine.options,
        lambda config: engine.description,
        lambda config, questions: cast("Engine", SharedEngine(engine.engine)),
        engine.check_servers,
        engine.close,
        in_this_process=True,
    )


def _make_scripted_engine(policy: Policy, config: RunConfig, label: str) -> ScriptedEngine:
    tokens = image_tokens(str(config.model), *config.image_size)
    batch_size = config.fixed_batch_size or BATCH_SIZE
    return ScriptedEngine(policy, batch_size, image_tokens=tokens, label=label)


def function_policy(function: Any) -> Policy:
    """Return the policy of a function from a request to a text.

    A coroutine function is called for all requests of a batch at once. A function whose parameter is called `requests`
    receives the batch as a list and returns a list of texts.
    """
    if inspect.iscoroutinefunction(function):
        return cast("Policy", SimpleNamespace(reply_all=partial(_gather, function)))
    with suppress(TypeError, ValueError):  # built-in functions may have no signature
        if next(iter(inspect.signature(function).parameters), None) == "requests":
            return cast("Policy", SimpleNamespace(reply_all=function))
    return cast("Policy", SimpleNamespace(reply=function))


def _gather(
    function: Callable[[Request], Awaitable[str]], requests: Sequence[Request]
) -> list[str | BaseException]:
    """Await the replies to all requests."""

    async def await_all() -> list[str | BaseException]:
        return await asyncio.gather(*map(function, requests), return_exceptions=True)

    return run_in_thread(await_all())


def python_record(model: str) -> dict[str, Any]:
    """Return the record of an engine implemented by the user."""
    return {"name": PYTHON, "model": model, "note": None}


def _choose_custom_engine(
    make: Callable[[RunConfig], Engine],
    name: str,
    code: Any,
    on_interrupt: Callable[[], None] = lambda: None,
) -> EngineChoice:
    """Return a custom engine, which must be passed again to resume the run; `code` is its function or class."""
    model = f"{PYTHON}:{name}"
    record = python_record(model)
    with suppress(OSError, TypeError):  # built-in functions have no source
        source = inspect.getsource(code)
        record["source"] = f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"
    return EngineChoice(
        {"engine": "scripted", "model": model},
        lambda config: record,
        lambda config, questions: make(config),
        on_interrupt=on_interrupt,
        in_this_process=True,
    )
