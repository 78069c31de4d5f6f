"""VSI-Bench as others scored: the rows of published tables, with where they stand.

They answer from video frames of the same scenes. Scores are in percent.
"""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.score.means import DIRECTION

TASKS = (
    "object_counting",
    "object_abs_distance",
    "object_size_estimation",
    "room_size_estimation",
    "object_rel_distance",
    DIRECTION,
    "route_planning",
    "obj_appearance_order",
)
"""The eight tasks in the order of the papers' columns."""

VSI_BENCH = "Yang et al. 2024, Thinking in Space, arXiv:2412.14171"


@dataclass(frozen=True, slots=True)
class Published:
    """One row: the mean of the tasks, the score of each task where the row has them, and its source."""

    name: str
    official: float
    source: str
    tasks: dict[str, float]
    note: str = ""


def _tasks(*scores: float) -> dict[str, float]:
    return dict(zip(TASKS, scores, strict=True))


PUBLISHED = (
    Published(
        "human",
        79.2,
        VSI_BENCH,
        _tasks(94.3, 47.0, 60.4, 45.9, 94.7, 95.8, 95.8, 100.0),
        "on VSI-Bench (tiny)",
    ),
    Published("Cambrian-P", 73.7, "Yang et al. 2026, Cambrian-P, arXiv:2605.22819", {}),
    Published("Cambrian-S-7B", 67.5, "Yang et al. 2025, Cambrian-S, arXiv:2511.04670", {}),
    Published("InternVL3.5-8B", 56.3, "Wang et al. 2025, InternVL3.5, arXiv:2508.18265", {}),
    Published(
        "Gemini-2.5-Pro",
        51.5,
        "as quoted in the tables of later papers",
        _tasks(43.8, 34.9, 64.3, 42.8, 61.1, 47.8, 45.9, 71.3),
    ),
    Published("Gemini-1.5-Pro", 45.4, VSI_BENCH, {}),
    Published("GPT-4o", 34.0, VSI_BENCH, {}),
    Published(
        "most frequent answer",
        34.0,
        VSI_BENCH,
        _tasks(62.1, 32.0, 29.9, 33.1, 25.1, 47.9, 28.4, 25.2),
        "fitted on the truths; its tasks come to 35.5",
    ),
)
"""The rows, the best first."""
