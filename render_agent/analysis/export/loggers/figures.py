"""The figures of a run by its turns: score with its interval, questions done, tokens, and speed since the last ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from render_agent.dialogue.state import QuestionState, Status, Turn
from render_agent.runs.log.results import counted, scored_answers
from render_agent.score.intervals import estimates_of
from render_agent.score.means import MACRO, tally

POINTS = 200
"""At most about so many times a run's figures are told, at turns that its options fix: before and after a break the
same."""


class RunFigures:
    """Counts what happens in a run, and says when its figures are due: all come from the log, none from a clock."""

    def __init__(self, states: Sequence[QuestionState]) -> None:
        self.states = states
        most = sum(state.max_turns for state in states)
        self.stride = -(-most // POINTS)
        self.totals = Counter[str]()
        for state in states:
            for turn in state.turns:
                self._count(turn)
        self._before = Counter(self.totals)

    @property
    def step(self) -> int:
        """The turns that the run has taken."""
        return self.totals["turns"]

    def took(self, turn: Turn) -> dict[str, float] | None:
        """Count a turn; return the figures where they are due."""
        self._count(turn)
        return None if self.step % self.stride else self.now()

    def now(self) -> dict[str, float]:
        """Return the figures as they are; speeds are those since the last time."""
        since, self._before = self.totals - self._before, Counter(self.totals)
        turns = max(1, since["turns"])
        status = Counter(state.status for state in self.states)
        figures = {
            "questions/done": len(self.states) - status[Status.ACTIVE],
            "questions/failed": status[Status.FAILED],
            "tokens/in": self.totals["in"],
            "tokens/out": self.totals["out"],
            "tokens/from_cache": self.totals["cached"],
            "speed/seconds_generating_a_turn": since["generating"] / turns / 1e6,
            "speed/seconds_rendering_a_turn": since["rendering"] / turns / 1e6,
            "speed/batch_size": since["batch"] / turns,
        }
        if since["generating"]:
            figures["speed/tokens_per_second"] = 1e6 * since["out"] / since["generating"]
        return figures | self._score()

    def _count(self, turn: Turn) -> None:
        self.totals += Counter(
            {
                "turns": 1,
                "in": turn.tokens.prompt,
                "out": turn.tokens.reply,
                "cached": turn.tokens.cached,
                "generating": round(1e6 * turn.seconds.generating),
                "rendering": round(1e6 * turn.seconds.rendering),
                "batch": turn.batch_size,
            }
        )

    def _score(self) -> dict[str, float]:
        """Return the official mean of what is scored so far with its 95 % interval, in percent."""
        answers = tally(scored_answers(counted(self.states)))
        if not len(answers.sums):
            return {}
        low, high = (100 * float(end) for end in estimates_of(answers)[MACRO].score_interval)
        score = {"score": 100 * float(answers.means[MACRO])}
        return score if np.isnan(low) else score | {"score_low": low, "score_high": high}


def summary(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of `results.json` by name, what is not known left out."""
    score = results["official_over_scored"]["score"]
    low, high = results["intervals"].get("official") or (None, None)
    found = {
        "final/score": score,
        **{f"final/{name}": results[name] for name in ("official", "micro", "without_order")},
        "final/score_low": low,
        "final/score_high": high,
        **{f"final/types/{name}": entry.get("score") for name, entry in results["types"].items()},
        **{f"final/questions/{name}": count for name, count in results["counts"].items()},
    }
    return {name: float(value) for name, value in found.items() if value is not None}
