"""Engine options (`--engine-option K=V`): parsed as YAML and checked against the types that an engine declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta

from render_agent.errors import UsageError
from render_agent.util.reasons import reason_of, short_repr
from render_agent.util.safe_parse import ValidationError, convert, parse_yaml
from render_agent.util.sanitize import is_key_option, redact_keys

# Types of the options of in-process models that control sampling and the chat template.
SAMPLING_OPTIONS = {
    "top_k": Annotated[int, Meta(ge=0)],
    "top_p": Annotated[float, Meta(gt=0, le=1)],
    "chat_template_kwargs": dict[str, Any],
}

# Example values shown in error messages, for options whose format is hard to guess.
EXAMPLES = {"extra_body": "{top_k: 20}", "chat_template_kwargs": "{enable_thinking: false}"}


def engine_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse K=V pairs, with values in YAML."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise UsageError(f"--engine-option {pair!r} must have the form K=V")
        try:
            options[name] = parse_yaml(value)
        except ValueError as error:
            raise UsageError(
                f"--engine-option {name}: the value is not valid YAML ({reason_of(error)})"
            ) from error
        if _contains_key(name, options[name]):
            raise UsageError(
                f"--engine-option {name} contains an API key, which would be saved in the run folder."
                " Put keys into the environment as RENDER_AGENT_API_KEY or HF_TOKEN."
            )
    return options


def check_engine_options(
    options: Mapping[str, Any], types: Mapping[str, Any], engine: str, hint: str = ""
) -> None:
    """Raise UsageError if an option is not in `types` or its value does not have the declared type."""
    for name, value in options.items():
        if name not in types:
            raise UsageError(
                f"--engine-option {name} does not exist for --engine {engine}. Use one of"
                f" {', '.join(types)}{hint}."
            )
        try:
            convert(value, types[name])
        except ValidationError as error:
            kinds = (types[name], *get_args(types[name]))
            choices = [
                word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)
            ]
            reason = f"must be one of {', '.join(choices)}" if choices else f"is not valid: {error}"
            example = f". Example: {EXAMPLES[name]}" if name in EXAMPLES else ""
            raise UsageError(
                f"--engine-option {name}={short_repr(value)} {reason}{example}"
            ) from error


def _contains_key(name: object, value: object) -> bool:
    """True if an option, at any depth, has the name of an API key or contains one from the environment."""
    if isinstance(value, dict):
        return is_key_option(str(name)) or any(_contains_key(*entry) for entry in value.items())
    if isinstance(value, list):
        return any(_contains_key(name, entry) for entry in value)
    return is_key_option(str(name)) or redact_keys(str(value)) != str(value)
