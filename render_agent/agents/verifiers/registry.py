"""The verifiers of `--verifier`: how each is written, what it needs, what it reads, and what it builds.

A verifier of a package is such a class, too, which its entry point names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render_agent.config.agent_plan import VerifierPlan
from render_agent.config.choice import InputFile, sha256
from render_agent.models import bundled_model
from render_agent.questions.input_files import annotation_files, scan_hashes

if TYPE_CHECKING:
    from render_agent.agents.verifiers.base import Panel, Verifier
    from render_agent.config import RunConfig
    from render_agent.dialogue.state import Question
    from render_agent.engines.base import Engine

KNOWS = "where the named objects are"
"""What the verifier geometry knows of a scene whose boxes are known, and no model does."""

FINGERPRINTS = ("weights", "processor")
"""What identifies the files of a model."""

UNREAD = (".md", ".csv")
"""Endings of files beside a learned verifier that people read, and no run does."""


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

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether nothing or `unnamed` stands behind the name."""
        return argument in (None, "unnamed")

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

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether nothing or a model stands behind the name."""
        return argument != ""

    @property
    def own_model(self) -> str | None:
        """The model behind the colon."""
        return self.argument

    def check(
        self, config: RunConfig, questions: Sequence[Question], *, models: bool = True
    ) -> None:
        """Raise where a run could not be judged; no weights are loaded.

        SetupError where the rubric cannot be read or its model is not at hand; UsageError where the rubric
        or the engine cannot be asked in this mode.
        """
        from render_agent.agents.verifiers.judge.verifier import check_judge

        check_judge(self, config, models=models)

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give a rubric of one's own, and as one entry the files of a bundled model."""
        rubric = Path(config.rubric)
        if rubric.is_absolute():
            yield InputFile("verifiers", str(rubric), "file of a verifier", sha256(rubric))
        if bundled_model(self.argument or ""):
            from render_agent.engines.transformers.model.locate import describe_model

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

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether nothing or a model stands behind the name."""
        return argument != ""

    def check(
        self, config: RunConfig, questions: Sequence[Question], *, models: bool = True
    ) -> None:
        """Raise SetupError where its model is not at hand."""
        if models:
            from render_agent.agents.verifiers.siglip import DEFAULT, find_siglip

            find_siglip(self.argument or DEFAULT)

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the verifier, its model loaded. SetupError where that is not at hand."""
        from render_agent.agents.verifiers.embedding import EmbeddingVerifier
        from render_agent.agents.verifiers.siglip import DEFAULT, load_siglip

        model = load_siglip(self.argument or DEFAULT, config.device)
        return EmbeddingVerifier(model, self.label)


class LearnedPlan(VerifierPlan):
    """A verifier that `train-verifier` wrote into a folder."""

    name = "learned"
    forms = ("learned:DIR",)

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether a folder stands behind the name."""
        return bool(argument)

    @property
    def folder(self) -> Path:
        """The folder that holds it."""
        return Path(self.argument or "")

    def check(
        self, config: RunConfig, questions: Sequence[Question], *, models: bool = True
    ) -> None:
        """Raise SetupError where the folder holds no verifier."""
        from render_agent.agents.verifiers.learned.card_file import check_learned

        check_learned(self.folder)

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give every file of the folder but those that only people read."""
        for file in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if file.suffix not in UNREAD:
                yield InputFile("verifiers", str(file), "file of a verifier", sha256(file))

    def knows(self, config: RunConfig, questions: Sequence[Question]) -> str | None:
        """Return that it was trained in some of the questions' scenes, None where in none.

        SetupError where the folder holds no verifier, or a scan cannot be read.
        """
        from render_agent.agents.verifiers.learned.card_file import read_card

        learned = read_card(self.folder)["learned"].get("learned_from", {}).get("scans", ())
        hashes = scan_hashes(questions)
        scans = {str(question.scan) for question in questions if question.scan is not None}
        met = sum(hashes[scan] in learned for scan in scans)
        return f"{met} of these {len(scans)} scenes, in which it was trained" if met else None

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return what it knows."""
        return {"knows": self.knows(config, questions)}

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the verifier, its weights loaded when it is used. SetupError where it holds none."""
        from render_agent.agents.verifiers.learned.verifier import load_verifier

        return load_verifier(self.folder, config.device, self.label)


def make_panel(config: RunConfig, questions: Sequence[Question], engine: Engine) -> Panel:
    """Return the verifiers of a run. SetupError where what one needs is not at hand.

    engine: of the run, which the judge asks where no other model is named.
    """
    from render_agent.agents.verifiers.base import Panel

    verifiers = tuple(plan.build(config, questions, engine) for plan in config.verifiers)
    return Panel(verifiers, config.weights, config.fusion)
