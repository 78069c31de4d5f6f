"""`--verifier learned:DIR` as parsed: checked, hashed and described without reading weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render_agent.config.agent_plan import VerifierPlan
from render_agent.config.choice import InputFile, sha256
from render_agent.questions.input_files import scan_files

if TYPE_CHECKING:
    from render_agent.agents.verifiers.base import Verifier
    from render_agent.config import RunConfig
    from render_agent.dialogue.state import Question
    from render_agent.engines.base import Engine

UNREAD = (".md", ".csv")
"""Endings of files in its folder that people read, and no run does."""


class LearnedPlan(VerifierPlan):
    """A verifier that `train-verifier` wrote into a folder."""

    name = "learned"
    forms = ("learned:DIR",)

    @property
    def folder(self) -> Path:
        """The folder that holds it."""
        return Path(self.argument or "")

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError where the folder holds no verifier."""
        from render_agent_lab.learned_verifier.card import check_learned

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
        from render_agent_lab.learned_verifier.card import read_card

        learned = read_card(self.folder)["learned"].get("learned_from", {}).get("scans", ())
        hashes = {file.name: file.digest for file in scan_files(questions)}
        scans = {str(question.scan) for question in questions if question.scan is not None}
        met = sum(hashes[scan] in learned for scan in scans)
        return f"{met} of these {len(scans)} scenes, in which it was trained" if met else None

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return what it knows."""
        return {"knows": self.knows(config, questions)}

    def build(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Verifier:
        """Return the verifier, its weights loaded when it is used. SetupError where it holds none."""
        from render_agent_lab.learned_verifier.verifier import load_verifier

        return load_verifier(self.folder, config.device, self.label)
