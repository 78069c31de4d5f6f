"""What `--agent` and `--verifier` ask for, taken apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from render_agent.errors import UsageError

Kind = Literal["single", "vote", "best", "lookahead", "rephrase", "show"]

FORMS = "single, vote:K, best:K, lookahead:K, lookahead:K:2, rephrase:RxK or show:K"

MOST = 64
"""Candidates of one turn at the most."""

MOST_WORDINGS = 8
"""Wordings of one question at the most, its own among them."""

LOOKING = ("geometry", "judge", "embedding")
"""Verifiers that look at what a candidate would show."""

VERIFIER_FORMS = (
    "random, geometry, geometry:unnamed, judge[:MODEL], embedding[:MODEL] or learned:DIR"
)


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """How one turn is decided.

    samples: replies to every wording of the question. groups: how many wordings there are. depth: how
    many moves ahead are looked at.
    """

    kind: Kind = "single"
    samples: int = 1
    groups: int = 1
    depth: int = 1

    @property
    def candidates(self) -> int:
        """Replies of which one is taken."""
        return self.samples * self.groups

    @property
    def verified(self) -> bool:
        """Whether verifiers choose among the candidates."""
        return self.kind in ("best", "lookahead", "rephrase")

    @property
    def renders(self) -> bool:
        """Whether what the candidates lead to is drawn."""
        return self.kind in ("lookahead", "rephrase", "show")

    @property
    def moves(self) -> bool:
        """Whether it chooses among moves, so that there must be some."""
        return self.verified or self.kind == "show"


@dataclass(frozen=True, slots=True)
class VerifierPlan:
    """A verifier as it was asked for: its name, and what stands behind the colon."""

    name: str
    argument: str | None = None

    @property
    def label(self) -> str:
        """The words it was asked for with."""
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    @property
    def looks(self) -> bool:
        """Whether it looks at what a candidate would show."""
        return self.name in LOOKING


def agent_plan(text: str) -> AgentPlan:
    """Return what `--agent` asks for. UsageError where it is none of FORMS."""
    kind, *numbers = text.strip().split(":")
    fault = UsageError(f"--agent {text!r} will not do: write {FORMS}, with whole numbers")
    if kind == "single" and not numbers:
        return AgentPlan()
    if kind not in get_args(Kind) or kind == "single" or not numbers:
        raise fault
    groups = 1
    if kind == "rephrase":
        found = re.fullmatch(r"([0-9]{1,4})[x×]([0-9]{1,4})", numbers[0])
        if not found or len(numbers) > 1:
            raise fault
        groups, samples = int(found[1]), int(found[2])
    elif not all(re.fullmatch(r"[0-9]{1,4}", number) for number in numbers):
        raise fault
    else:
        samples = int(numbers[0])
    depth = int(numbers[1]) if len(numbers) > 1 else 1
    if len(numbers) > (2 if kind == "lookahead" else 1) or depth not in (1, 2):
        raise fault
    plan = AgentPlan(kind, samples, groups, depth)  # type: ignore[arg-type]
    if not 2 <= plan.candidates <= MOST or not samples:
        raise UsageError(f"--agent {text}: 2 to {MOST} candidates are needed, to choose among them")
    if groups > MOST_WORDINGS:
        raise UsageError(f"--agent {text}: there are {MOST_WORDINGS} wordings at the most")
    return plan


def verifier_plans(texts: Sequence[str]) -> tuple[VerifierPlan, ...]:
    """Return what `--verifier` asks for. UsageError where one is none of VERIFIER_FORMS."""
    plans = []
    for text in texts:
        name, colon, argument = text.strip().partition(":")
        fits = {
            "random": not colon,
            "geometry": not colon or argument == "unnamed",
            "judge": not colon or bool(argument),
            "embedding": not colon or bool(argument),
            "learned": bool(argument),
        }
        if not fits.get(name, False):
            raise UsageError(f"--verifier {text!r} will not do: write {VERIFIER_FORMS}")
        plans.append(VerifierPlan(name, argument or None))
    if len(set(plans)) < len(plans):
        raise UsageError("a --verifier is named twice")
    return tuple(plans)
