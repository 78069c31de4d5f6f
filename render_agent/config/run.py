"""The options of a run together: written to `config.json` and read from it, with their fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from render_agent.config.agent import AgentSpec
from render_agent.config.dialogue import DialogueSpec
from render_agent.config.engine import EngineSpec
from render_agent.config.paths import absolute
from render_agent.config.questions import QuestionSpec
from render_agent.config.schedule import OutputSpec, ScheduleSpec
from render_agent.errors import SetupError, UsageError
from render_agent.util.reasons import short_repr

JUDGE_PICTURES = 5
"""Pictures in a judge's prompt at the most: a candidate's, and the latest ones shown."""

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
        self.check_dialogue()
        self.check_agent(
            greedy=not self.temperature, free=self.free, one_reply=self.gives_one_reply
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave the objects that options were parsed into to whoever reads it."""
        return asdict(self)

    @property
    def pictures_in_prompt(self) -> int:
        """The largest number of pictures in a prompt of the run, a judge's included."""
        shown = self.most_views
        if (
            self.turn_agent.shows_all
        ):  # beside what a move leads to, where the others would have led
            shown += (self.turn_agent.samples - 1) * (self.max_turns - 1)
        return max(shown, JUDGE_PICTURES if self.judges else 0)

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
        """Return the options that `to_json` wrote. UsageError if one is unknown or has the wrong type."""
        import msgspec  # not at import: --help does not need it

        if unknown := sorted(set(data) - set(OPTIONS)):
            raise UsageError(f"there is no option {short_repr(unknown[0])}")
        try:
            config: RunConfig = msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise UsageError(str(error)) from error
        except SetupError as error:  # a part that no installed package provides
            raise UsageError(str(error)) from error
        return config


def absolute_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return some options with their paths made absolute, so that a run can be resumed from any folder."""
    return {
        name: absolute(value, OPTIONS[name].metadata.get("path")) for name, value in options.items()
    }


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
