"""The options of a run together: written to `config.json` and read from it, with their fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, get_type_hints

from render_agent.config.agent import AgentSpec
from render_agent.config.dialogue import DialogueSpec
from render_agent.config.engine import EngineSpec
from render_agent.config.paths import absolute_paths
from render_agent.config.questions import QuestionSpec
from render_agent.config.schedule import OutputSpec, ScheduleSpec
from render_agent.errors import SetupError, UsageError
from render_agent.text.reasons import short_repr

MAX_INT = 2**63 - 1
MAX_SIDE_PIXELS = 65536
COUNT_OR_AUTO = r"^(auto|[0-9]{1,9})$"

SPECS = (QuestionSpec, EngineSpec, ScheduleSpec, DialogueSpec, AgentSpec, OutputSpec)
"""What the options of a run consist of, in the order in which they are told."""


@dataclass(frozen=True)
class RunConfig(QuestionSpec, EngineSpec, ScheduleSpec, DialogueSpec, AgentSpec, OutputSpec):
    """The options of one run, resolved: flag beats environment beats file beats default.

    What may differ when a run is continued: the groups `speed`, `place` and `display`, and what is
    declared `free`. All else changes results and is part of the fingerprint.
    """

    def __post_init__(self) -> None:
        self.check_questions()
        self.check_engine()
        self.check_schedule()
        self.check_dialogue(change_at=self.change_at)
        self.check_agent(
            greedy=not self.temperature, free=self.free, one_reply=self.gives_one_reply
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave the objects that options were parsed into to whoever reads it."""
        return asdict(self)

    def absolute(self) -> RunConfig:
        """Return the same options with every path made absolute, so that they hold from any folder."""
        return replace(self, **absolute_paths(asdict(self)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of every option that changes results."""
        return fingerprint_of(asdict(self))

    def to_json(self) -> dict[str, Any]:
        """Return the options as `config.json` holds them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunConfig:
        """Return the options that `to_json` wrote. UsageError where one is unknown, or cannot be so."""
        try:
            return cls(**{name: _saved(name, value) for name, value in data.items()})
        except SetupError as error:  # a part that no installed package brings
            raise UsageError(str(error)) from error


def fixed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some options that change results: a run that goes on keeps them."""
    return {name: value for name, value in options.items() if name not in CHANGEABLE}


def fingerprint_of(options: Mapping[str, Any]) -> str:
    """Return the SHA-256 of those of some options that change results.

    Of saved options it stays what it was when later versions of the program have more of them.
    """
    text = json.dumps(fixed_options(options), sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


OPTIONS = {entry.name: entry for spec in SPECS for entry in fields(spec)}
"""The declared options by name, as they are told; a base class would have its own first."""

CHANGEABLE = {
    name
    for name, entry in OPTIONS.items()
    if entry.metadata["group"] in ("speed", "place", "display") or entry.metadata.get("free")
}
"""Names of the options that may differ when a run is continued."""


def _saved_type(entry: Field[Any], hint: Any) -> Any:
    """Return the type that a saved option has, with its bounds; hint: its annotation."""
    from msgspec import Meta

    if hint == int | str:  # a number, or auto
        return Annotated[int, Meta(ge=1, le=MAX_INT)] | Annotated[str, Meta(pattern=COUNT_OR_AUTO)]
    if hint == tuple[int, int]:
        side = Annotated[int, Meta(ge=1, le=MAX_SIDE_PIXELS)]
        return tuple[side, side]
    if hint in (int, int | None):
        least = entry.metadata.get("minimum", -MAX_INT)
        whole = Annotated[int, Meta(ge=least, le=MAX_INT)]
        return whole | None if hint == int | None else whole
    if hint is float and "minimum" in entry.metadata:
        return Annotated[float, Meta(ge=entry.metadata["minimum"])]
    return hint


@cache
def _saved_types() -> dict[str, Any]:
    """Return the type of every saved option by name; not at import, as --help needs no msgspec."""
    return {
        name: _saved_type(OPTIONS[name], hint)
        for spec in SPECS
        for name, hint in get_type_hints(spec).items()
    }


def _saved(name: str, value: object) -> Any:
    """Return the value of a saved option. UsageError where there is no such option, or it cannot be so."""
    import msgspec

    if name not in OPTIONS:
        raise UsageError(f"there is no option {short_repr(name)}")
    try:
        converted = msgspec.convert(value, _saved_types()[name])
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at")[0]
        raise UsageError(
            f"the option {name} cannot be {short_repr(value)}: {reason[:1].lower()}{reason[1:]}"
        ) from error
    return value if isinstance(value, int) else converted  # a fingerprint tells 1 from 1.0
