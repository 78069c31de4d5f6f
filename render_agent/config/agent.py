"""How every turn's move is chosen among several: the options, and the objects that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from render_agent import registry
from render_agent.config.choice import parsed
from render_agent.config.option import declare
from render_agent.errors import UsageError
from render_agent.util.reasons import short_repr

if TYPE_CHECKING:
    from render_agent.agents.agent import Agent
    from render_agent.agents.verifiers.verifier import Verifier

setting = partial(declare, "choosing")


@dataclass(frozen=True)
class AgentSpec:
    """How many replies a turn has, and who chooses among them."""

    agent: str = setting(
        "single",
        "How a turn is decided: single, the one reply; vote:K, the answer of K replies; best:K, of K moves"
        " the one that verifiers score best, unseen; lookahead:K, of K moves that are made and drawn"
        " first; rephrase:RxK, with R wordings of the question; show:K, the model is shown where all K"
        " moves lead.",
        metavar="FORM",
    )
    verifier: tuple[str, ...] = setting(
        (),
        "What scores the moves: random, geometry (geometry:unnamed knows no boxes), judge[:MODEL],"
        " embedding[:MODEL], learned:DIR; may be given more than once, then the mean of their ranks counts"
        " (default: geometry where moves are drawn).",
        metavar="NAME",
        path="argument",
    )
    rubric: str = setting(
        "view",
        "By what the judge rates views: a rubric that is shipped, or a file.",
        metavar="NAME|FILE",
        path="file",
    )
    judge_mode: str = setting(
        "yes",
        "How the judge rates: its probability of yes, or criteria in JSON.",
        choices=("yes", "json"),
    )

    @cached_property
    def turn_agent(self) -> Agent:
        """What `--agent` asks for. UsageError where it cannot be read."""
        return parse_agent(self.agent)

    @cached_property
    def verifiers(self) -> tuple[Verifier, ...]:
        """The verifiers that choose, those by default included, not yet open. UsageError where one cannot be read."""
        default = self.turn_agent.verifiers
        return () if default is None else parsed("verifier", "--verifier", self.verifier or default)

    @property
    def judges(self) -> tuple[Verifier, ...]:
        """Those of the verifiers that ask a model about every candidate."""
        return tuple(verifier for verifier in self.verifiers if verifier.asks_model)

    @property
    def agent_words(self) -> str:
        """The agent and its verifiers, as "lookahead:4 by geometry and random"."""
        labels = [verifier.label for verifier in self.verifiers]
        return f"{self.agent} by {' and '.join(labels)}" if labels else self.agent

    def check_agent(self, *, greedy: bool, free: bool, one_reply: bool) -> None:
        """Raise UsageError where these options contradict each other, or the rest of a run.

        greedy: whether the temperature is 0. free: whether the model chooses its views. one_reply: whether
        the engine gives one reply a turn, as a person does.
        """
        agent = self.turn_agent
        if agent.verifiers is None:
            if self.verifier:
                raise UsageError(
                    f"--agent {self.agent} takes no verifier: leave {self.verifier[0]} out"
                )
        elif not self.verifiers:
            raise UsageError(f"--agent {self.agent} needs --verifier random or learned:DIR")
        looking = [verifier for verifier in self.verifiers if verifier.looks]
        if looking and not agent.draws:
            raise UsageError(
                f"--verifier {looking[0].label} looks at what a move leads to, and {agent.form} draws none:"
                f" use --agent lookahead:{agent.samples}"
            )
        if not agent.chooses:
            return
        if one_reply:
            raise UsageError(
                f"--agent {self.agent} needs several replies a turn: a person gives one"
            )
        if greedy:
            raise UsageError(
                f"--agent {self.agent} needs replies that differ: give a --temperature above 0"
            )
        if agent.moves and not free:
            raise UsageError(f"--agent {self.agent} chooses among moves: use it with --views free")


MAX_CANDIDATES = 64
"""Maximum number of candidates per turn."""

_COUNTS = {"R": "(?P<wordings>[0-9]{1,4})", "K": "(?P<samples>[0-9]{1,4})", "x": "[x×]"}


def parse_agent(text: str) -> Agent:
    """Parse the text of `--agent`. UsageError if it has none of the forms of agents."""
    known = registry.names("agent")
    name, colon, argument = text.strip().partition(":")
    agent: type[Agent] | None = registry.load("agent", name) if name in known else None
    shape = agent.form.partition(":")[2] if agent else ""
    match = re.fullmatch("".join(_COUNTS[letter] for letter in shape), argument)
    if agent is None or match is None or bool(colon) != bool(shape):
        forms = ", ".join(registry.load("agent", each).form for each in known)
        raise UsageError(
            f"--agent {short_repr(text)} is not valid: write one of {forms}, with whole numbers"
        )
    made = agent(text.strip(), **{key: int(value) for key, value in match.groupdict().items()})
    if colon and not 2 <= made.candidates <= MAX_CANDIDATES:
        raise UsageError(
            f"--agent {text}: 2 to {MAX_CANDIDATES} candidates are needed, to choose among them"
        )
    return made
