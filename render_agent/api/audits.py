"""Audits from Python: how much of a benchmark is answered without looking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from render_agent.analysis.audit import FOLDS, chosen_questions
from render_agent.analysis.audit import audit as audited
from render_agent.api.frames import audit_frame, audited_questions_frame
from render_agent.api.keywords import RunOptions
from render_agent.config.flags import checked

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """How much of a benchmark is answered without looking; found: all figures, as `render-agent audit --json` prints them.

    >>> import render_agent
    >>> render_agent.audit("rooms", type=("room_size_estimation",)).types["method"].tolist()[:3]
    ['frequency', 'category', 'text']
    """

    found: Mapping[str, Any]

    @property
    def types(self) -> pandas.DataFrame:
        """A row a type, and the mean of tasks, and method: its score, chance, and its gain with interval and p, in percent."""
        return audit_frame(self.found)

    @property
    def questions(self) -> pandas.DataFrame:
        """A row a question: the score of every method, 0 to 1, chance, and whether it falls."""
        return audited_questions_frame(self.found)

    def __repr__(self) -> str:
        return f"<audit of {self.found['n']} questions: {len(self.found['falling'])} fall>"


def audit(
    questions: str | Path, *, folds: int = FOLDS, seed: int = 0, **options: Unpack[RunOptions]
) -> Audit:
    """Return how much of a benchmark (its name, or a file of questions) is answered without looking, as `render-agent audit` does.

    folds: into how many parts the scenes are dealt. seed: deals them, grows the forests. options: of a run, that choose
    questions. SetupError without scikit-learn, QuestionsError where too few scenes can be held out.

    >>> import render_agent
    >>> render_agent.audit("rooms", type=("room_size_estimation",)).found["scenes"]
    8
    """
    chosen = chosen_questions(str(questions), checked({**options}))
    return Audit(audited(chosen, folds, seed))
