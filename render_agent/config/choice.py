"""What every choice of a run can do: check itself, name the files that it reads, describe itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from render_agent import registry
from render_agent.errors import SetupError, UsageError, os_errors
from render_agent.util.reasons import short_repr

if TYPE_CHECKING:
    from render_agent.config.run import RunConfig
    from render_agent.dialogue.question import Question

Section = Literal["questions", "annotations", "scans", "verifiers"]
"""Under which key of `sha256` in `config.json` a file is recorded."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a run depends on, as it is now.

    name: its path, or what stands for several files. kind: what it is, in words. digest: its SHA-256, None
    where it is not there. may_appear: whether a run goes on where it was not there, or not known, before.
    """

    section: Section
    name: str
    kind: str
    digest: str | None
    may_appear: bool = False

    def differs(self, recorded: Mapping[str, str | None]) -> bool:
        """Whether it is not the file that a run began with; recorded: digests by name."""
        known = recorded.get(self.name)
        if self.may_appear and known is None:
            return False
        return known != self.digest


class Choice:
    """One choice among the options of a run, parsed into an object; `build` makes what it stands for.

    What `build` is given and returns belongs to the kind of choice.
    """

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError or UsageError where something is missing for it; nothing heavy is loaded.

        questions: those that are still to be asked.
        """

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError where a model or cluster that this process needs is not available."""

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give the files that it reads, as they are now. SetupError where one cannot be read."""
        return ()

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Describe it for `config.json`, beside the options; nothing heavy is loaded."""
        return {}


def parsed(kind: registry.Kind, flag: str, texts: Sequence[str], **more: Any) -> tuple[Any, ...]:
    """Parse texts such as NAME or NAME:ARGUMENT into parts of the registry, each made with its argument.

    flag: of the option that has these texts. more: further arguments of every part. UsageError where one is in none of the forms of its kind, or is
    there twice.
    """
    if len({text.strip() for text in texts}) < len(texts):
        raise UsageError(f"a {flag} is named twice")
    plans = []
    for text in texts:
        name, colon, argument = text.strip().partition(":")
        maker = registry.load(kind, name) if name in registry.names(kind) else None
        if maker is None or not maker.accepts(argument if colon else None):
            makers = (registry.load(kind, part) for part in registry.names(kind))
            forms = ", ".join(form for each in makers for form in each.forms)
            raise UsageError(f"{flag} {short_repr(text)} is not valid: write one of {forms}")
        plans.append(maker(argument or None, **more))
    return tuple(plans)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file. SetupError where it cannot be read."""
    with os_errors(SetupError, f"read {path}"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
