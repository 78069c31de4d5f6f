"""What answers a run: the options, and the engine that one of them names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from render_agent import registry
from render_agent.config.option import AUTO, declare
from render_agent.errors import UsageError

T = TypeVar("T")

DEFAULT_MODEL = "Qwen/Qwen3-VL-8B-Instruct"

setting = partial(declare, "engine")


@dataclass(frozen=True)
class EngineSpec:
    """What answers: an engine, its model, and how that is loaded."""

    engine: str = setting(
        "transformers",
        "What answers: a model in this process, by transformers or vLLM; an OpenAI-compatible server;"
        " replies by rule; or a person, in the browser.",
        part="engine",
    )
    model: str | None = setting(
        None,
        "A hub name, a directory, or small, the bundled one (default Qwen/Qwen3-VL-8B-Instruct); with --engine scripted:"
        " explorer (default), wanderer, random, frequency, oracle, witness, seeker, expert, stumbler, surveyor, or a file of replies.",
        metavar="NAME",
        path="model",
    )
    base_url: tuple[str, ...] = setting(
        (),
        "Where the server of --engine openai answers, such as http://localhost:8000/v1; may be given"
        " more than once.",
        metavar="URL",
        free=True,
    )
    revision: str | None = setting(None, "Revision of the model.", metavar="NAME")
    dtype: str = setting(
        AUTO, "Number format of the weights.", choices=(AUTO, "float32", "bfloat16", "float16")
    )
    device: str = setting(AUTO, "Where the model runs: auto, cpu, cuda, cuda:1 …", metavar="NAME")
    tensor_parallel: int = setting(1, "GPUs that hold one model together.", minimum=1, metavar="N")
    max_model_len: int | None = setting(
        None, "The most tokens of a dialogue; the question of a longer one fails.", metavar="N"
    )
    engine_option: tuple[str, ...] = setting(
        (),
        "An option of the engine, passed on unchanged; may be given more than once.",
        metavar="K=V",
    )
    thinking: str = setting(
        AUTO,
        "Whether the model thinks before it replies: on, off, or as its chat template does by itself.",
        choices=(AUTO, "on", "off"),
    )
    thinking_budget: int | None = setting(
        None,
        "The most tokens of thought a turn, beside those of the reply: then the thought is closed.",
        minimum=0,
        metavar="N",
    )
    no_guide: bool = setting(
        False, "Do not hold replies to their JSON schema where the engine could."
    )

    def check_engine(self) -> None:
        """Raise UsageError where thinking is spoken of to what is no model."""
        if not self.asks_model and (self.thinking != AUTO or self.thinking_budget is not None):
            flag = "--thinking-budget" if self.thinking == AUTO else "--thinking"
            raise UsageError(f"{flag} is for models, not for --engine {self.engine}: leave it out")

    @property
    def model_name(self) -> str:
        """The model, or the default of the engine."""
        return self.model or self._trait("default_model", DEFAULT_MODEL)

    @property
    def asks_model(self) -> bool:
        """Whether a model answers, which takes tokens: neither a rule nor a person."""
        return self._trait("asks_model", default=True)

    @property
    def holds_weights(self) -> bool:
        """Whether the engine holds a model in this process, so that it may need a GPU."""
        return self._trait("holds_weights", default=True)

    @property
    def gives_probabilities(self) -> bool:
        """Whether the engine says how likely what a model could write is."""
        return self._trait("gives_probabilities", default=True)

    @property
    def gives_one_reply(self) -> bool:
        """Whether it can give one reply a turn only, as a person does."""
        return self._trait("gives_one_reply", default=False)

    def _trait(self, name: str, default: T) -> T:
        return engine_trait(self.engine, name, default)


def code_of(spec: EngineSpec) -> str | None:
    """Return the file of Python that a run would run as its policy, None where it runs none."""
    name = spec.model_name
    if spec.engine != "scripted" or not name.endswith(".py"):
        return None
    return None if name in registry.names("scripted policy") else name


def refuse_code(spec: EngineSpec, where: str) -> None:
    """Raise UsageError where the options name a policy's Python file; where: the file of options that names it."""
    if code := code_of(spec):
        raise UsageError(
            f"{where} names a program, {code}, as the model: it is run only where --model {code} or --allow-code"
            " is typed"
        )


def engine_trait(engine: str, name: str, default: T) -> T:
    """Return a declared trait of a built-in engine, `default` for a package's; no package is imported."""
    if engine not in registry.built_in("engine"):
        return default
    trait: T = getattr(registry.load("engine", engine), name)
    return trait
