"""Published scores, by the questions they were measured on: what each was shown, where and when it stands.

Scores are in percent. A run is set only against rows of the very same questions (`comparable`); those of other
questions are here to be read. `secondary`: the figures were taken from a summary, not from the source itself.
"""

from __future__ import annotations

from collections.abc import Sequence
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

FULL, TINY = "VSI-Bench", "VSI-Bench (tiny)"
STATIC = "VSI-Bench, its six tasks without routes and order"
NO_ORDER = "VSI-Bench without the appearance order"
SAMPLE = "1,000 questions drawn from VSI-Bench-Debiased"
HELD_OUT = "a part of VSI-Bench that was held out"
REVSI = "ReVSI"
ROAMED = "VSI-Bench, explored in meshes over several turns"
THEORY = "Theory of Space"

SAME_QUESTIONS = {"full": (FULL, NO_ORDER, STATIC), "tiny": (TINY,)}
"""The rows that a whole run of a subset is set against; of NO_ORDER and STATIC by their tasks alone."""


@dataclass(frozen=True, slots=True)
class Published:
    """One row: its mean, the score of each task where the row has them, and what must be known of it.

    official: the mean of the eight tasks, as the source has it. mean: another mean that the source has, of
    the row's own tasks. shown: frames, boxes or tools. date: of the source, year and month.
    """

    name: str
    questions: str
    source: str
    date: str
    official: float | None = None
    tasks: tuple[tuple[str, float], ...] = ()
    shown: str = "frames of the video"
    mean: float | None = None
    secondary: bool = False
    note: str = ""

    @property
    def scores(self) -> dict[str, float]:
        """The score of every task that the row has."""
        return dict(self.tasks)

    @property
    def told(self) -> str:
        """What must stand beside its figures, in words."""
        marks = "secondary source, not checked" if self.secondary else ""
        return ", ".join(filter(None, (self.shown, self.note, self.source, self.date, marks)))


def comparable(subset: str) -> list[Published]:
    """Return the rows that were measured on the very questions of a subset of VSI-Bench."""
    return [row for row in PUBLISHED if row.questions in SAME_QUESTIONS.get(subset, ())]


def _tasks(*scores: float, of: Sequence[str] = TASKS) -> tuple[tuple[str, float], ...]:
    return tuple(zip(of, scores, strict=True))


_STATIC_TASKS, _ALL_BUT_ORDER = TASKS[:6], TASKS[:7]
_PAPER = ("Yang et al., Thinking in Space, arXiv:2412.14171", "2024-12")
_RIEMIND = ("Ropero et al., RieMind, arXiv:2603.15386", "2026-03")
_REVSI = ("ReVSI, ICML 2026", "2026")
_HARNESS = ("VLMEvalKit, pull request 1342", "2025-12")
_CLAW = ("SpatialClaw, arXiv:2606.13673", "2026-06")
_THEORY = ("Theory of Space, ICLR 2026", "2026")
_BOXES = "boxes of the truth, and tools that measure them"

PUBLISHED = (
    Published(
        "human", TINY, *_PAPER, 79.2, _tasks(94.3, 47.0, 60.4, 45.9, 94.7, 95.8, 95.8, 100.0),
        shown="the video",
    ),
    Published("Cambrian-P", FULL, "Yang et al., Cambrian-P, arXiv:2605.22819", "2026-05", 73.7),
    Published("Cambrian-S-7B", FULL, "Yang et al., Cambrian-S, arXiv:2511.04670", "2025-11", 67.5),
    Published("InternVL3.5-8B", FULL, "Wang et al., InternVL3.5, arXiv:2508.18265", "2025-08", 56.3),
    Published(
        "Qwen3-VL-4B-Instruct", FULL, *_HARNESS, 55.1,
        _tasks(65.43, 45.44, 77.40, 55.14, 55.49, (60.37 + 47.62 + 32.71) / 3, 37.11, 57.93),
        shown="64 frames", note="its Overall, 56.57, is the mean of questions",
    ),
    Published(
        "Gemini-2.5-Pro", FULL, "as quoted in the tables of later papers", "2025", 51.5,
        _tasks(43.8, 34.9, 64.3, 42.8, 61.1, 47.8, 45.9, 71.3), secondary=True,
    ),
    Published(
        "Qwen3-VL-2B-Instruct", FULL, "Qwen3-VL, issue 2028, by lmms-eval", "2026-02", 51.0,
        _tasks(59.95, 42.24, 70.93, 52.33, 52.96, 42.79, 27.32, 59.39),
        note="53.9 in its authors' report",
    ),
    Published("Gemini-1.5-Pro", FULL, *_PAPER, 45.4),
    Published(
        "InternVL3-8B", FULL, *_HARNESS, 42.8,
        _tasks(68.48, 34.14, 43.48, 45.62, 47.46, (52.07 + 44.71 + 21.18) / 3, 29.90, 33.82),
        shown="64 frames", note="its Overall, 42.54, is the mean of questions",
    ),
    Published("GPT-4o", FULL, *_PAPER, 34.0),
    Published(
        "most frequent answer", FULL, *_PAPER, 34.0,
        _tasks(62.1, 32.0, 29.9, 33.1, 25.1, 47.9, 28.4, 25.2),
        shown="nothing", note="fitted on the truths; its tasks come to 35.5",
    ),
    Published(
        "Qwen2.5-VL-7B", FULL, *_HARNESS, 31.0,
        _tasks(24.44, 21.98, 42.40, 26.81, 36.62, (48.39 + 46.03 + 27.61) / 3, 27.84, 27.02),
        shown="64 frames",
        note="its Overall, 32.47, is the mean of questions; 29.3 to 38.7 in other papers",
    ),
    Published(
        "Qwen3-VL-8B", NO_ORDER, "as quoted in the tables of later papers", "2026", None,
        _tasks(70.0, 50.5, 74.7, 63.3, 57.3, 52.3, 33.5, of=_ALL_BUT_ORDER),
        shown="64 frames", mean=57.4, secondary=True,
    ),
    *(
        Published(
            name, STATIC, *_RIEMIND, None, _tasks(*scores, of=_STATIC_TASKS), shown=shown, mean=mean,
            secondary=True,
        )
        for name, shown, mean, scores in (
            ("RieMind, GPT-4.1", _BOXES, 89.5, (86.5, 94.9, 97.9, 77.8, 92.7, 87.3)),
            ("RieMind, GPT-4o", _BOXES, None, (85.1, 93.2, 96.5, 83.5, 85.6, 67.5)),
            ("RieMind, Qwen2.5-VL-7B", _BOXES, 64.1, (89.7, 90.3, 93.6, 31.9, 44.5, 34.7)),
            ("GPT-4o", "frames of the video", None, (46.2, 5.3, 43.8, 38.2, 37.0, 41.3)),
            ("Qwen2.5-VL-7B", "frames of the video", 31.2, (40.9, 14.8, 43.4, 10.7, 38.6, 38.5)),
        )
    ),
    *(
        Published(name, SAMPLE, *_CLAW, official, shown=shown, secondary=True)
        for name, official, shown in (
            ("SpatialClaw, Gemma4-31B", 48.5, "frames, and tools on estimated geometry"),
            ("Gemma4-31B", 48.0, "frames of the video"),
            ("pySpatial, Gemma4-31B", 44.4, "frames, and tools on estimated geometry"),
            ("SpaceTools, Gemma4-31B", 33.6, "frames, and tools on estimated geometry"),
        )
    ),
    *(
        Published(name, HELD_OUT, "ViewTree", "2026", mean=mean, secondary=True, note="mean of ten types")
        for name, mean in (("ViewTree, Qwen2.5-VL-7B", 36.7), ("Qwen2.5-VL-7B", 31.3))
    ),
    *(
        Published(name, ROAMED, "as quoted in a summary", "2026", mean=mean, shown=shown, secondary=True)
        for name, mean, shown in (
            ("a model that watches", 47.1, "the video"),
            ("the same, exploring", 44.3, "views of a mesh over several turns"),
        )
    ),
    *(
        Published(
            name, REVSI, *_REVSI, None, _tasks(*scores, of=_ALL_BUT_ORDER), shown=shown, mean=mean,
            secondary=True,
        )
        for name, shown, mean, scores in (
            ("Gemini 3 Pro", "the video", 60.9, (60.1, 54.7, 79.3, 51.9, 68.1, 56.5, 56.4)),
            ("S-Agent", "frames, and tools", 58.8, (54.0, 45.6, 62.6, 53.4, 63.6, 66.4, 66.1)),
            ("Qwen3-VL-32B", "frames", 53.3, (46.9, 65.0, 70.4, 55.8, 53.8, 34.0, 47.3)),
            ("GPT-5.2", "64 frames", 50.9, (56.2, 41.5, 73.9, 63.0, 48.4, 34.9, 38.2)),
            ("Qwen3-VL-8B", "64 frames", 49.1, (40.4, 52.3, 69.0, 45.1, 57.1, 39.5, 40.5)),
            ("InternVL3.5-8B", "frames", 47.9, (43.3, 54.6, 64.2, 47.6, 45.0, 36.3, 44.4)),
            ("most frequent answer", "nothing", 31.4, (52.2, 40.1, 17.4, 20.9, 25.8, 31.9, 30.2)),
        )
    ),
    *(
        Published(name, THEORY, *_THEORY, mean=mean, shown="views it asked for", secondary=True)
        for name, mean in (
            ("human", 96.4), ("Gemini 3 Pro", 57.3), ("GPT-5.2", 46.0), ("Claude 4.5 Sonnet", 29.6),
            ("Qwen3-VL", 21.3),
        )
    ),
)  # fmt: skip
"""The rows, by their questions and the best first."""
