"""What answers a run: the options, and the engine that one of them names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from render_agent import registry
from render_agent.config.option import AUTO, setting

T = TypeVar("T")

DEFAULT_MODEL = "Qwen/Qwen3-VL-8B-Instruct"


@dataclass(frozen=True)
class EngineSpec:
    """What answers: an engine, its model, and how that is loaded."""

    engine: str = setting(
        "transformers",
        "engine",
        "What answers: a model in this process, by transformers or vLLM; an OpenAI-compatible server;"
        " replies by rule; or a person, in the browser.",
        choices=registry.built_in("engine"),
        part="engine",
    )
    model: str | None = setting(
        None,
        "engine",
        "A hub name, a directory, or small, the bundled one (default Qwen/Qwen3-VL-8B-Instruct); with --engine scripted:"
        " explorer (default), wanderer, random, frequency, oracle, witness, seeker, expert, stumbler, or a file of replies.",
        metavar="NAME",
    )
    base_url: tuple[str, ...] = setting(
        (),
        "engine",
        "Where the server of --engine openai answers, such as http://localhost:8000/v1; may be given"
        " more than once.",
        metavar="URL",
        free=True,
    )
    revision: str | None = setting(None, "engine", "Revision of the model.", metavar="NAME")
    dtype: str = setting(
        AUTO,
        "engine",
        "Number format of the weights.",
        choices=(AUTO, "float32", "bfloat16", "float16"),
    )
    device: str = setting(
        AUTO, "engine", "Where the model runs: auto, cpu, cuda, cuda:1 …", metavar="NAME"
    )
    tensor_parallel: int = setting(
        1, "engine", "GPUs that hold one model together.", minimum=1, metavar="N"
    )
    max_model_len: int | None = setting(
        None,
        "engine",
        "Tokens of a dialogue at the most; a longer one fails its question.",
        metavar="N",
    )
    engine_option: tuple[str, ...] = setting(
        (), "engine", "Passed to the engine as it is.", metavar="K=V"
    )
    no_guide: bool = setting(
        False,
        "engine",
        "Do not hold replies to their JSON schema where the engine could.",
        flag=True,
    )

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


def engine_trait(engine: str, name: str, default: T) -> T:
    """Return what an engine says of itself; no package is imported to know it of a package's engine."""
    if engine not in registry.built_in("engine"):
        return default
    found: T = getattr(registry.load("engine", engine), name)
    return found
