"""Engines of runs that are started from Python: a name, a loaded model, or code of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Unpack, cast

from render_agent.api.keywords import AskOptions
from render_agent.config import OPTIONS, RunConfig
from render_agent.config.engine import engine_trait
from render_agent.config.flags import checked, errors_name_keywords
from render_agent.dialogue.state import Question
from render_agent.engines.base import Engine, Reply, Request
from render_agent.engines.registry import MakeEngine, describe_engine, make_engine
from render_agent.engines.scripted import Policy, ScriptedEngine
from render_agent.engines.token_estimate import picture_tokens
from render_agent.errors import UsageError
from render_agent.runs.runner import DescribeEngine
from render_agent.text.reasons import short_repr

Answering = str | Engine | Policy | Callable[[Request], str] | None
"""What may be given as an engine: a name, an engine, or what replies to a request with a text."""

ENGINE_OPTIONS = [name for name, entry in OPTIONS.items() if entry.metadata["group"] == "engine"]

PYTHON = "python"
"""What a run records as the name of an engine of somebody's own code."""


class LoadedEngine:
    """A model that was loaded once and answers any number of runs; `load_engine` makes it.

    It is closed by `close`, at the end of its `with` block, or by a run that was interrupted while it
    was answering: what it holds then is not known.
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
        """Give back memory, connections and processes."""
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


@errors_name_keywords()
def load_engine(
    engine: str = "transformers", model: str | None = None, **options: Unpack[AskOptions]
) -> LoadedEngine:
    """Load a model once, for several runs and questions: give it as their `engine`.

    engine: transformers, vllm or openai. model: a hub name, a directory, or small, the bundled one.
    options: those of a run, by name; `image_size` and `max_turns` tell how long dialogues get, so that
    memory is shared out rightly. SetupError where the model is not at hand, UsageError where an option will not do.

    >>> import render_agent
    >>> with render_agent.load_engine(model="Qwen/Qwen3-VL-8B-Instruct") as model:  # doctest: +SKIP
    ...     for question in ("How many chairs are there?", "Is there a piano?"):
    ...         render_agent.ask("room.ply", question, engine=model)
    >>> render_agent.load_engine("scripted")
    Traceback (most recent call last):
    ...
    render_agent.errors.UsageError: the engine 'scripted' loads no model: give its name to run or ask
    """
    if not engine_trait(engine, "asks_model", default=True):
        raise UsageError(f"the engine {engine!r} loads no model: give its name to run or ask")
    options_of_run = {"batch": True, "engine": engine, "model": model, **options}
    config = RunConfig(**checked(options_of_run)).absolute()
    description = describe_engine(config)
    return LoadedEngine(make_engine(config, []), config, description)


@dataclass(frozen=True)
class EngineChoice:
    """The engine of a run: its options, its record for `config.json`, and the function that makes it."""

    options: Mapping[str, Any]
    describe: DescribeEngine = describe_engine
    make: MakeEngine = make_engine
    in_this_process: bool = False

    def check(self, config: RunConfig) -> None:
        """UsageError where an engine of this process is to answer in others."""
        if self.in_this_process and not config.alone:
            raise UsageError(
                "an engine that was made in Python answers in this process alone: leave workers, devices"
                " and ray out, or name the engine"
            )


def choose_engine(engine: Answering | LoadedEngine, options: Mapping[str, Any]) -> EngineChoice:
    """Return the engine choice for a run with these options. UsageError where engine and options contradict."""
    if engine is None or isinstance(engine, str):
        return EngineChoice({} if engine is None else {"engine": engine})
    engine_options = {
        name: options[name] for name in ENGINE_OPTIONS if options.get(name) is not None
    }
    if isinstance(engine, LoadedEngine):
        return _loaded(engine, engine_options)
    if engine_options:
        raise UsageError(
            f"{min(engine_options)} goes with an engine that is named, not with one made in Python"
        )
    if callable(getattr(engine, "generate", None)):
        return _own(lambda config: BorrowedEngine(engine), type(engine).__name__)  # type: ignore[arg-type]
    if callable(getattr(engine, "reply", None)):
        return _own(partial(_scripted, engine), type(engine).__name__)  # type: ignore[arg-type]
    if callable(engine):
        name = getattr(engine, "__name__", type(engine).__name__)
        return _own(partial(_scripted, SimpleNamespace(reply=engine)), name)
    raise UsageError(
        f"{short_repr(engine)} cannot answer: give the name of an engine, an engine, or a function that takes"
        " a request and returns a text"
    )


def missing_engine(model: str) -> EngineChoice:
    """Return a stand-in for a user's own engine that was not given; it raises UsageError once it is needed."""

    def make(config: RunConfig, questions: Sequence[Question]) -> Engine:
        raise UsageError(f"the run was begun with an engine of your own, {model}: give it again")

    return EngineChoice({}, make=make)


class BorrowedEngine:
    """An engine that outlives its run: at the run's end it forgets the run's questions.

    All that is not defined here is the engine's own, its optional verbs included. An engine that was interrupted while
    it was answering is closed, and `on_loss` is called.
    """

    def __init__(self, engine: Engine, on_loss: Callable[[], None] | None = None) -> None:
        self.engine = engine
        self._on_loss = on_loss or engine.close
        self._known: set[str] = set()
        self._under_way = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order."""
        self._note(requests)
        replies = self.engine.generate(requests)
        self._under_way -= len(requests)
        return replies

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give."""
        self._note(requests)
        self.engine.submit(requests)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Wait until a request is answered and give those that are."""
        for request, reply in self.engine.ready(timeout):
            self._under_way -= 1
            yield request, reply

    def retire(self, question_id: str) -> None:
        """Free what was kept for a question."""
        self._known.discard(question_id)
        self.engine.retire(question_id)

    def close(self) -> None:
        """Forget the run's questions; give the engine up where its state is not known."""
        if self._under_way:
            self._on_loss()
            return
        for question_id in sorted(self._known):
            self.engine.retire(question_id)

    def _note(self, requests: Sequence[Request]) -> None:
        self._under_way += len(requests)
        self._known.update(request.question_id for request in requests)


def _loaded(engine: LoadedEngine, engine_options: Mapping[str, Any]) -> EngineChoice:
    if engine.closed:
        raise UsageError(f"{engine!r} answers no more: load it again")
    for name, value in checked(engine_options).items():
        if value != engine.options.get(name, OPTIONS[name].default):
            raise UsageError(f"{name} is another one than {engine!r} was loaded with: leave it out")
    return EngineChoice(
        engine.options,
        lambda config: engine.description,
        lambda config, questions: cast("Engine", BorrowedEngine(engine.engine, engine.close)),
        in_this_process=True,
    )


def _scripted(policy: Policy, config: RunConfig) -> ScriptedEngine:
    tokens = picture_tokens(config.model_name, *config.image_size)
    return ScriptedEngine(policy, picture_tokens=tokens)


def _own(make: Callable[[RunConfig], Engine], name: str) -> EngineChoice:
    """Return an engine of somebody's own code; its run says so, and goes on only where it is given again."""
    model = f"{PYTHON}:{name}"
    return EngineChoice(
        {"engine": "scripted", "model": model},
        lambda config: {"name": PYTHON, "model": model, "note": None},
        lambda config, questions: make(config),
        in_this_process=True,
    )
