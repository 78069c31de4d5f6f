"""How every turn's move is chosen among several: the options, and the objects that they name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

from render_agent.config.agent_plan import AgentPlan, VerifierPlan, agent_plan
from render_agent.config.choice import parsed
from render_agent.config.option import declare
from render_agent.errors import UsageError

setting = partial(declare, "choosing")


@dataclass(frozen=True, slots=True)
class JudgeMode:
    """How a judge is asked.

    scores: whether the probability of yes is read, and no reply is written. pairs: whether it compares every two
    candidates, in both orders.
    """

    scores: bool = False
    pairs: bool = False


JUDGE_MODES = {
    "yes": JudgeMode(scores=True),
    "json": JudgeMode(),
    "pairwise": JudgeMode(pairs=True),
}
"""The values of `--judge-mode`."""


@dataclass(frozen=True)
class AgentSpec:
    """How many replies a turn has, and who chooses among them."""

    agent: str = setting(
        "single",
        "How a turn is decided: single, the one reply; vote:K, the answer of K replies; best:K, of K moves"
        " the one that verifiers score best, unseen; lookahead:K, of K moves that are made and drawn"
        " first (:2 looks two moves ahead); rephrase:RxK, with R wordings of the question; show:K, the"
        " model is shown where all K moves lead.",
        metavar="FORM",
    )
    verifier: tuple[str, ...] = setting(
        (),
        "What scores the moves: random, geometry (geometry:unnamed knows no boxes), judge[:MODEL],"
        " embedding[:MODEL], learned:DIR; may be given more than once (default: geometry where moves are"
        " drawn).",
        metavar="NAME",
    )
    verifier_weights: tuple[str, ...] = setting(
        (),
        "The weight of every verifier, in their order, such as 1,0.5.",
        metavar="LIST",
        separator=",",
    )
    fusion: str = setting(
        "ranks",
        "How the scores of several verifiers are fused: mean of ranks, or of normalised scores.",
        choices=("ranks", "normalised"),
    )
    rubric: str = setting(
        "view",
        "By what the judge rates views: a rubric that is shipped, or a file.",
        metavar="NAME|FILE",
    )
    judge_mode: str = setting(
        "yes",
        "How the judge rates: its probability of yes, criteria in JSON, or pairs.",
        choices=tuple(JUDGE_MODES),
    )

    @cached_property
    def agent_plan(self) -> AgentPlan:
        """What `--agent` asks for. UsageError where it cannot be read."""
        return agent_plan(self.agent)

    @cached_property
    def verifiers(self) -> tuple[VerifierPlan, ...]:
        """The verifiers that choose, those by default included. UsageError where one cannot be read."""
        plan = self.agent_plan
        if not plan.verified:
            return ()
        default = ("geometry",) if plan.renders else ()
        return parsed("verifier", "--verifier", self.verifier or default)

    @property
    def judges(self) -> tuple[VerifierPlan, ...]:
        """Those of the verifiers that ask a model about every candidate."""
        return tuple(plan for plan in self.verifiers if plan.asks_model)

    @property
    def judging(self) -> JudgeMode:
        """How those are asked."""
        return JUDGE_MODES[self.judge_mode]

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of every verifier. UsageError where they do not fit the verifiers."""
        if not self.verifier_weights:
            return (1.0,) * len(self.verifiers)
        try:
            weights = tuple(float(weight) for weight in self.verifier_weights)
        except ValueError:
            raise UsageError("--verifier-weights are numbers, such as 1,0.5") from None
        if len(weights) != len(self.verifiers):
            raise UsageError(
                f"--verifier-weights gives {len(weights)} weights for {len(self.verifiers)} verifiers"
            )
        if not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
            raise UsageError("--verifier-weights are 0 or more, and one at least is above 0")
        return weights

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
        plan = self.agent_plan
        if not plan.verified:
            if option := self.verifier or self.verifier_weights:
                raise UsageError(f"--agent {self.agent} takes no verifier: leave {option[0]} out")
        elif not self.verifiers:
            raise UsageError(f"--agent {self.agent} needs --verifier random or learned:DIR")
        if not plan.chooses:
            return
        if (
            plan.verified
            and not plan.renders
            and (looking := [v for v in self.verifiers if v.looks])
        ):
            raise UsageError(
                f"--verifier {looking[0].label} looks at what a move leads to, and {plan.form} draws none:"
                f" use --agent lookahead:{plan.samples}"
            )
        if one_reply:
            raise UsageError(
                f"--agent {self.agent} needs several replies a turn: a person gives one"
            )
        if greedy:
            raise UsageError(
                f"--agent {self.agent} needs replies that differ: give a --temperature above 0"
            )
        if plan.moves and not free:
            raise UsageError(f"--agent {self.agent} chooses among moves: use it with --views free")
        _ = self.weights  # refused here, before there is a run
