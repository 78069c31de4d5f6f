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
from render_agent.config.flags import checked, errors_name_keywords

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """How much of a benchmark is answered without looking; found: all figures, as `render-agent audit --json` prints them.

    >>> import render_agent
    >>> render_agent.Audit({"n": 3, "falling": ["7"], "types": {}, "overall": {"methods": {}}})
    <audit of 3 questions: 1 falls>
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
        number = len(self.found["falling"])
        return (
            f"<audit of {self.found['n']} questions: {number} {'falls' if number == 1 else 'fall'}>"
        )


@errors_name_keywords()
def audit(benchmark: str | Path, /, *, folds: int = FOLDS, **options: Unpack[RunOptions]) -> Audit:
    """Return how much of a benchmark (its name, or a file of questions) is answered without looking, as `render-agent audit` does.

    folds: into how many parts the scenes are dealt. options: of a run, that choose questions; `seed` deals the scenes
    and grows the forests, too. SetupError without scikit-learn, QuestionsError where too few scenes can be held out.

    >>> import render_agent
    >>> render_agent.audit("rooms", folds=2, type=("room_size_estimation",)).found["scenes"]
    8
    """
    chosen = chosen_questions(str(benchmark), checked({**options}))
    return Audit(audited(chosen, folds, options.get("seed") or 0))
