"""The engine that the options name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from render_agent.config import AUTO, RunConfig
from render_agent.dialogue.state import Question
from render_agent.engines import plugins as brought
from render_agent.engines.base import Engine
from render_agent.engines.scripted.baselines import NOTES
from render_agent.engines.scripted.engine import BATCH_SIZE, make_scripted, policy_maker
from render_agent.errors import UsageError
from render_agent.text.redact import names_a_key, without_keys
from render_agent.text.safe_parse import parse_yaml


def describe_engine(config: RunConfig) -> dict[str, Any]:
    """Return what a run records of its engine, read without loading any weights.

    SetupError where its model is not at hand, UsageError for an option that it does not have.
    """
    options = engine_options(config.engine_option)
    if config.engine == "scripted":
        policy_maker(config.model_name)
        note = NOTES.get(config.model_name)
        return {"name": "scripted", "model": config.model_name, "note": note}
    if config.engine == "openai":
        from render_agent.engines.openai.engine import describe

        return describe(config, options)
    if config.engine == "human":
        from render_agent.engines.human import engine as human

        return human.describe(config)
    if config.engine == "vllm":
        from render_agent.engines.vllm import engine as vllm_engine

        return vllm_engine.describe(config, options)
    if config.engine not in brought.OWN:
        return brought.describe(config)
    from render_agent.engines.transformers.model.locate import describe_model
    from render_agent.engines.transformers.options import check_options, refuse_tensor_parallel

    # What cannot run is refused before there is a run folder.
    refuse_tensor_parallel(config.tensor_parallel)
    described = describe_model(config.model_name, config.revision)
    check_options(options, str(described["model_type"]))
    return {
        "name": config.engine,
        "model": config.model_name,
        **described,
        "dtype": config.dtype,
        "device": config.device,
        "guided": "no" if config.no_guide else f"llguidance {version('llguidance')}",
    }


def make_engine(config: RunConfig, questions: Sequence[Question]) -> Engine:
    """Return the engine, its model loaded. SetupError where that is impossible."""
    options = engine_options(config.engine_option)
    if config.engine == "scripted":
        size = BATCH_SIZE if config.batch_size == AUTO else int(config.batch_size)
        return make_scripted(config.model_name, questions, config.seed, size, config)
    if config.engine == "openai":
        from render_agent.engines.openai.engine import make

        return make(config, options)
    if config.engine == "human":
        from render_agent.engines.human import engine as human

        return human.make(config, questions)
    if config.engine == "vllm":
        from render_agent.engines.vllm import engine as vllm_engine

        return vllm_engine.make(config, options)
    if config.engine not in brought.OWN:
        return brought.make(config, questions)
    from render_agent.engines.transformers.factory import dialogue_tokens, engine_of
    from render_agent.engines.transformers.model.load import open_model

    loaded = open_model(
        config.model_name,
        revision=config.revision,
        dtype=config.dtype,
        device=config.device,
        max_model_len=config.max_model_len,
        tensor_parallel=config.tensor_parallel,
        options=options,
    )
    rows = None if config.batch_size == AUTO else int(config.batch_size)
    tokens = dialogue_tokens(loaded, config, options)
    return engine_of(loaded, rows, options, tokens, picture_size=config.image_size)


def engine_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Return K=V pairs as a mapping, values read as YAML. UsageError where one is no pair."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise UsageError(f"--engine-option {pair!r} must be written K=V")
        try:
            options[name] = parse_yaml(value)
        except ValueError as error:
            told = " ".join(str(error).split())
            raise UsageError(
                f"--engine-option {name}: its value is no YAML ({told[:200]})"
            ) from error
        if _holds_a_key(name, options[name]):
            raise UsageError(
                f"--engine-option {name} holds a key, and would be written into the run folder: put keys"
                " into the environment, as RENDER_AGENT_API_KEY or HF_TOKEN"
            )
    return options


def _holds_a_key(name: object, value: object) -> bool:
    """Whether an option is called as keys are, or holds one of the environment, at any depth."""
    if isinstance(value, dict):
        return names_a_key(str(name)) or any(_holds_a_key(*entry) for entry in value.items())
    if isinstance(value, list):
        return any(_holds_a_key(name, entry) for entry in value)
    return names_a_key(str(name)) or without_keys(str(value)) != str(value)
