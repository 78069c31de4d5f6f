"""What `--agent` and `--verifier` ask for: the base classes of agents and verifiers, and their parsers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from render_agent import registry
from render_agent.config.choice import Choice
from render_agent.errors import UsageError
from render_agent.text.reasons import short_repr

if TYPE_CHECKING:
    from render_agent.agents.base import Agent
    from render_agent.agents.candidates import Reranker
    from render_agent.agents.verifiers.base import Verifier
    from render_agent.config.run import RunConfig
    from render_agent.dialogue.prompt import Prompt
    from render_agent.dialogue.state import Question
    from render_agent.engines.base import Engine

MAX_CANDIDATES = 64
"""Candidates of one turn at the most."""

MAX_WORDINGS = 8
"""Wordings of one question at the most, its own among them."""


@dataclass(frozen=True)
class AgentPlan(Choice):
    """How one turn is decided; every kind of agent has a subclass, which the registry names.

    samples: replies to every wording of the question. groups: how many wordings there are. depth: how
    many moves ahead are looked at.
    """

    kind: ClassVar[str]
    """Its name in `--agent`, before the colon."""
    form: ClassVar[str]
    """How it is written."""
    verified: ClassVar[bool] = False
    """Whether verifiers choose among the candidates."""
    renders: ClassVar[bool] = False
    """Whether what the candidates lead to is drawn."""
    shows_all: ClassVar[bool] = False
    """Whether the model is shown where all moves lead."""
    votes: ClassVar[bool] = False
    """Whether the candidates vote."""

    samples: int = 1
    groups: int = 1
    depth: int = 1

    @classmethod
    def parse(cls, argument: str | None) -> Self:
        """Return the plan that is written behind the colon, None for nothing: so many samples.

        ValueError where it cannot be written so.
        """
        return cls(count(argument))

    @property
    def candidates(self) -> int:
        """Replies of which one is taken."""
        return self.samples * self.groups

    @property
    def chooses(self) -> bool:
        """Whether there are several replies to choose among."""
        return self.candidates > 1

    @property
    def moves(self) -> bool:
        """Whether it chooses among moves, so that there must be some."""
        return self.verified or self.shows_all

    def draws(self, verifiers: Sequence[VerifierPlan]) -> bool:
        """Whether what its candidates would show is drawn for these verifiers."""
        return self.renders

    def build(self, config: RunConfig, prompt: Prompt, reranker: Reranker) -> Agent:
        """Return the agent of a run. reranker: draws where candidates lead, and scores them."""
        raise NotImplementedError


@dataclass(frozen=True)
class VerifierPlan(Choice):
    """A verifier as it was asked for; every kind has a subclass, which the registry names.

    argument: what stands behind the colon, None for nothing.
    """

    name: ClassVar[str]
    """Its name in `--verifier`, before the colon."""
    forms: ClassVar[Sequence[str]] = ()
    """How it is written; the name alone where there is none."""
    looks: ClassVar[bool] = False
    """Whether it looks at what a candidate would show."""
    asks_model: ClassVar[bool] = False
    """Whether it asks a model about every candidate."""

    argument: str | None = None

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether one of its forms has this behind the colon, None for no colon.

        A word in capitals stands for any text, and what is in brackets may be left out.
        """
        for form in cls.forms or (cls.name,):
            _, colon, behind = form.replace("[", "").removesuffix("]").partition(":")
            if argument is None:
                fits = not colon or form.endswith("]")
            else:
                fits = bool(argument) and (argument == behind or behind.isupper())
            if fits:
                return True
        return False

    @property
    def label(self) -> str:
        """The words it was asked for with."""
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    @property
    def own_model(self) -> str | None:
        """The model that it asks beside that of the run, None for none."""
        return None

    def knows(self, config: RunConfig, questions: Sequence[Question]) -> str | None:
        """Return in words what it knows that no model should, None for nothing."""
        return None

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the verifier. engine: of the run. SetupError where what it needs is not at hand."""
        raise NotImplementedError


def count(text: str | None) -> int:
    """Return a whole number of up to four digits. ValueError where the text is none."""
    if not re.fullmatch("[0-9]{1,4}", text or ""):
        raise ValueError(text)
    return int(text or "")


def agent_plan(text: str) -> AgentPlan:
    """Parse the text of `--agent`. UsageError where it is none of the forms of agents."""
    kind, colon, argument = text.strip().partition(":")
    known = registry.names("agent")
    try:
        if kind not in known:
            raise ValueError(kind)
        plan: AgentPlan = registry.load("agent", kind)(argument if colon else None)
    except ValueError as error:
        own = [registry.load("agent", name).__self__.form for name in registry.built_in("agent")]
        forms = ", ".join([*own, *registry.brought("agent")])
        raise UsageError(
            f"--agent {short_repr(text)} is not valid: write one of {forms}, with whole numbers"
        ) from error
    if (colon and not plan.chooses) or not 1 <= plan.candidates <= MAX_CANDIDATES:
        raise UsageError(
            f"--agent {text}: 2 to {MAX_CANDIDATES} candidates are needed, to choose among them"
        )
    if plan.groups > MAX_WORDINGS:
        raise UsageError(f"--agent {text}: there are {MAX_WORDINGS} wordings at the most")
    return plan
