"""The options of `--engine-option K=V`: read as YAML, and checked against the types that an engine declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta

from render_agent.errors import UsageError
from render_agent.util.reasons import reason_of, short_repr
from render_agent.util.redact import names_a_key, without_keys
from render_agent.util.safe_parse import MisfitError, convert, parse_yaml

SAMPLING_OPTIONS = {
    "top_k": Annotated[int, Meta(ge=0)],
    "top_p": Annotated[float, Meta(gt=0, le=1)],
    "chat_template_kwargs": dict[str, Any],
}
"""The engine options of models in this process that say how replies are written, and the types of their values."""

EXAMPLES = {"extra_body": "{top_k: 20}", "chat_template_kwargs": "{enable_thinking: false}"}
"""Values of engine options that are hard to guess."""


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
            raise UsageError(
                f"--engine-option {name}: its value is no YAML ({reason_of(error)})"
            ) from error
        if _holds_a_key(name, options[name]):
            raise UsageError(
                f"--engine-option {name} holds a key, and would be written into the run folder: put keys"
                " into the environment, as RENDER_AGENT_API_KEY or HF_TOKEN"
            )
    return options


def check_engine_options(
    options: Mapping[str, Any], types: Mapping[str, Any], engine: str, others: str = ""
) -> None:
    """Raise UsageError where an option is none of `types`, or its value is not of the type that it has there.

    others: what else may be named, in words.
    """
    for name, value in options.items():
        if name not in types:
            raise UsageError(
                f"--engine-option {name} does not exist for --engine {engine}: use one of"
                f" {', '.join(types)}{others}"
            )
        try:
            convert(value, types[name])
        except MisfitError as error:
            kinds = (types[name], *get_args(types[name]))
            choices = [
                word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)
            ]
            reason = f"must be one of {', '.join(choices)}" if choices else f"does not fit: {error}"
            example = f", such as {EXAMPLES[name]}" if name in EXAMPLES else ""
            raise UsageError(
                f"--engine-option {name}={short_repr(value)} {reason}{example}"
            ) from error


def _holds_a_key(name: object, value: object) -> bool:
    """Whether an option is called as keys are, or holds one of the environment, at any depth."""
    if isinstance(value, dict):
        return names_a_key(str(name)) or any(_holds_a_key(*entry) for entry in value.items())
    if isinstance(value, list):
        return any(_holds_a_key(name, entry) for entry in value)
    return names_a_key(str(name)) or without_keys(str(value)) != str(value)
