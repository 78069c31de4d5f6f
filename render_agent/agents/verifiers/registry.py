"""The verifiers that the options name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from render_agent.agents.verifiers.base import Panel, Verifier
from render_agent.agents.verifiers.embedding import EmbeddingVerifier
from render_agent.agents.verifiers.geometry import make_geometry
from render_agent.agents.verifiers.judge.verifier import check_judge, make_judge
from render_agent.agents.verifiers.learned.card_file import check_learned
from render_agent.agents.verifiers.random import RandomVerifier
from render_agent.agents.verifiers.siglip import DEFAULT, find_siglip, load_siglip
from render_agent.config import RunConfig
from render_agent.config.agent_plan import VerifierPlan
from render_agent.dialogue.state import Question
from render_agent.engines.base import Engine
from render_agent.errors import SetupError


def make_panel(config: RunConfig, questions: Sequence[Question], engine: Engine) -> Panel:
    """Return the verifiers of a run. SetupError where what one needs is not at hand.

    engine: of the run, which the judge asks where no other model is named.
    """
    verifiers = tuple(make_verifier(plan, config, questions, engine) for plan in config.verifiers)
    return Panel(verifiers, config.weights, config.fusion)


def check_verifiers(config: RunConfig, *, models: bool = True) -> None:
    """Raise SetupError where what a verifier needs is not at hand; nothing heavy is loaded.

    models: whether what would be loaded from the hub has to be at hand, too.
    """
    for plan in config.verifiers:
        if plan.name == "judge":
            check_judge(plan, config, models=models)
        elif plan.name == "embedding" and models:
            find_siglip(plan.argument or DEFAULT)
        elif plan.name == "learned":
            check_learned(Path(plan.argument or ""))


def make_verifier(
    plan: VerifierPlan, config: RunConfig, questions: Sequence[Question], engine: Engine
) -> Verifier:
    """Return one verifier. SetupError where what it needs is not at hand."""
    if plan.name == "random":
        return RandomVerifier(config.seed)
    if plan.name == "geometry":
        return make_geometry(config, questions, unnamed=plan.argument is not None)
    if plan.name == "judge":
        return make_judge(plan, config, engine)
    if plan.name == "embedding":
        return EmbeddingVerifier(load_siglip(plan.argument or DEFAULT, config.device), plan.label)
    if plan.name == "learned":
        # torch and the features are loaded when it is used
        from render_agent.agents.verifiers.learned.verifier import load_verifier

        return load_verifier(Path(plan.argument or ""), config.device, plan.label)
    raise SetupError(f"--verifier {plan.label} is not to be had")
