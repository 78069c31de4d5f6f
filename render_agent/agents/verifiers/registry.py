"""The verifiers of `--verifier`: how each is written, what it needs, what it reads, and what it builds.

A verifier of a package is such a class, too, which its entry point names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render_agent.config.agent_plan import VerifierPlan
from render_agent.config.choice import InputFile, sha256
from render_agent.models import bundled_model
from render_agent.questions.input_files import annotation_files

if TYPE_CHECKING:
    from render_agent.agents.verifiers.base import Verifier, VerifierPanel
    from render_agent.config import RunConfig
    from render_agent.dialogue.state import Question
    from render_agent.engines.base import Engine

KNOWS = "where the named objects are"
"""What the verifier geometry knows of a scene whose boxes are known, and no model does."""

FINGERPRINTS = ("weights", "processor")
"""What identifies the files of a model."""


class RandomPlan(VerifierPlan):
    """Chance: the control that every other is measured against."""

    name = "random"
    forms = ("random",)

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the verifier that scores by chance."""
        from render_agent.agents.verifiers.random import RandomVerifier

        return RandomVerifier(config.seed)


class GeometryPlan(VerifierPlan):
    """What of the room a move shows anew, and of the named objects where their boxes are known."""

    name = "geometry"
    forms = ("geometry", "geometry:unnamed")
    looks = True

    def reads_boxes(self, config: RunConfig) -> bool:
        """Whether it goes by boxes, where they are known."""
        return self.argument is None and config.picture_stress.own_scene

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give the files of boxes that it goes by."""
        return annotation_files(config, questions) if self.reads_boxes(config) else ()

    def knows(self, config: RunConfig, questions: Sequence[Question]) -> str | None:
        """Return that it knows the boxes, where it does."""
        return KNOWS if any(self.inputs(config, questions)) else None

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return what it knows."""
        return {"knows": self.knows(config, questions)} if self.argument is None else {}

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the verifier. QuestionsError where a file of truths is in no known format."""
        from render_agent.agents.verifiers.geometry import make_geometry

        return make_geometry(config, questions, unnamed=self.argument is not None)


class JudgePlan(VerifierPlan):
    """A vision-language model, that of the run or one of its own, which rates what a move shows."""

    name = "judge"
    forms = ("judge[:MODEL]",)
    looks = True
    asks_model = True

    @property
    def own_model(self) -> str | None:
        """The model behind the colon."""
        return self.argument

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """SetupError where the rubric cannot be read; UsageError where rubric or engine lack its mode."""
        from render_agent.agents.verifiers.judge.verifier import check_judge

        check_judge(self, config)

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError where its own model is not at hand."""
        if self.argument is not None:
            from render_agent.agents.verifiers.judge.verifier import judge_config
            from render_agent.engines.registry import describe_engine

            describe_engine(judge_config(config, self))

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give a rubric of one's own, and as one entry the files of a bundled model."""
        rubric = Path(config.rubric)
        if rubric.is_absolute():
            yield InputFile("verifiers", str(rubric), "file of a verifier", sha256(rubric))
        if bundled_model(self.argument or ""):
            from render_agent.engines.checkpoint.locate import describe_model

            described = describe_model(str(self.argument))
            digest = " ".join(described[name] for name in FINGERPRINTS)
            yield InputFile("verifiers", self.label, "verifier", digest)

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return its model, rubric and mode."""
        model = self.argument or config.model_name
        return {"model": model, "rubric": config.rubric, "mode": config.judge_mode}

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the judge, its own model loaded where one is named. SetupError as in `check`."""
        from render_agent.agents.verifiers.judge.verifier import make_judge

        return make_judge(self, config, engine)


class EmbeddingPlan(VerifierPlan):
    """A SigLIP model, which compares what a move shows with what the question names."""

    name = "embedding"
    forms = ("embedding[:MODEL]",)
    looks = True

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError where its model is not at hand."""
        from render_agent.agents.verifiers.siglip import DEFAULT_SIGLIP, find_siglip

        find_siglip(self.argument or DEFAULT_SIGLIP)

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the verifier, its model loaded. SetupError where that is not at hand."""
        from render_agent.agents.verifiers.embedding import EmbeddingVerifier
        from render_agent.agents.verifiers.siglip import DEFAULT_SIGLIP, load_siglip

        model = load_siglip(self.argument or DEFAULT_SIGLIP, config.device)
        return EmbeddingVerifier(model, self.label)


def make_panel(config: RunConfig, questions: Sequence[Question], engine: Engine) -> VerifierPanel:
    """Return the verifiers of a run. SetupError where what one needs is not at hand.

    engine: of the run, which the judge asks where no other model is named.
    """
    from render_agent.agents.verifiers.base import VerifierPanel

    verifiers = tuple(plan.build(config, questions, engine) for plan in config.verifiers)
    return VerifierPanel(verifiers, config.weights, config.fusion)


def describe_choosing(config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
    """Return what `config.json` holds of the agent and its verifiers; nothing heavy is loaded.

    note: what must be said beside every figure of the run, None where there is nothing. QuestionsError
    where a file of boxes is in no known format.
    """
    plan = config.agent_plan
    description: dict[str, Any] = {
        "agent": config.agent,
        "kind": plan.kind,
        "samples": plan.samples,
        "groups": plan.groups,
        "depth": plan.depth,
        "verifiers": [
            {"name": verifier.label, "weight": weight, **verifier.describe(config, questions)}
            for verifier, weight in zip(config.verifiers, config.weights, strict=True)
        ],
        "fusion": config.fusion if plan.verified else None,
    }
    return {**description, "note": _note(description)}


def _note(description: Mapping[str, Any]) -> str | None:
    """Return the sentence that a run needs whose moves were chosen by what no model should know."""
    if not any(entry.get("knows") for entry in description["verifiers"]):
        return None
    names = [
        f"{entry['name']} (knows {entry['knows']})" if entry.get("knows") else entry["name"]
        for entry in description["verifiers"]
    ]
    return f"agent: {description['agent']} by {', '.join(names)}"
