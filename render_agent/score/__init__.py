"""The score of answers, by VSI-Bench's official definitions and by those of the harnesses that score it.

Imports `errors` and `text`. Start with `official`, one answer scored, then `means` and `summary`.
"""

from render_agent.score.official import (
    CHOICE_TYPES,
    DIRECTION_TYPES,
    NUMBER_TYPES,
    TYPES,
    is_number,
    mean_relative_accuracy,
    score_answer,
)

__all__ = [
    "CHOICE_TYPES",
    "DIRECTION_TYPES",
    "NUMBER_TYPES",
    "TYPES",
    "is_number",
    "mean_relative_accuracy",
    "score_answer",
]
