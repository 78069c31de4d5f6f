"""Plots of what the questions of a run did: turns used, what was seen, why they failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.analysis.diagnosis.model import Cause
from render_agent.analysis.diagnosis.summary import JUDGED
from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.plots import palette
from render_agent.analysis.report.plots.vector_plot import (
    Cell,
    Plot,
    above,
    draw,
    from_zero,
    interval_line,
    kept_by,
    name_rows,
    stacked,
    whole,
)
from render_agent.analysis.report.words import causes_meant, in_order, outcome, type_words
from render_agent.score.intervals import LEAST_SCENES, ratio

OVER_SCENES = f"jackknife over scenes, none below {LEAST_SCENES} scenes."
"""What the intervals are."""

Scene = tuple[str, str]
"""A data set and the name of one of its scenes."""

AS_SCORED = (
    " Right is what the scores above call right, by the truth of the room that is not mirrored."
)
AS_SHOWN = " Right is what is right in the mirrored room, so not what the scores above are of."
"""What right means in mirrored rooms, where answers are scored, and where they are set against views."""

ALL_TYPES = "all types"

LEAST_BARS = 6
"""A plot of fewer bars has room for so many."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its 95 % interval over scenes, of `n` questions; no interval where there are too few scenes."""

    n: int
    value: float
    low: float | None = None
    high: float | None = None


def outcome_plots(report: ReportData) -> list[Plot]:
    """Return the plots of what the questions did: turns used, what was seen, why they failed."""
    plots = (turns_used(report), coverage(report), causes(report), seen(report))
    return [plot for plot in plots if plot is not None]


def turns_used(report: ReportData) -> Plot | None:
    """Right and wrong questions by the turns they used."""
    shares = right_by_turns(report)
    if not shares:
        return None
    turns = list(shares)
    right = [round(share.n * share.value) for share in shares.values()]
    wrong = [share.n - own for share, own in zip(shares.values(), right, strict=True)]

    def paint(axes: Any) -> None:
        for label, numbers, colour, bottom in (
            ("right", right, palette.RIGHT, None),
            ("wrong", wrong, palette.WRONG, right),
        ):
            bars = axes.bar(turns, numbers, bottom=bottom, color=colour, label=label, width=0.72)
            for bar, turn, number in zip(bars, turns, numbers, strict=True):
                bar.set_url(kept_by(turns=turn, outcome=label) if number else None)
        for turn, share in shares.items():
            axes.annotate(
                f"{share.value:.0%}", (turn, share.n), (0, 3), textcoords="offset points",
                ha="center", fontsize=8.5,
            )  # fmt: skip
        axes.set_xticks(turns)
        room = max(0, LEAST_BARS - (turns[-1] - turns[0] + 1)) / 2  # one bar is no wall
        axes.set_xlim(turns[0] - 0.6 - room, turns[-1] + 0.6 + room)
        from_zero(axes, 0.12)
        whole(axes.yaxis)
        axes.set_xlabel("turns used")
        axes.set_ylabel("questions")
        above(axes)

    return draw(
        "turns",
        "Right and wrong by turns used",
        "Bars of the number of questions by turns used, right ones below wrong ones.",
        paint,
        ("turns", "right", "wrong", "right, %", "95 % interval, %"),
        [
            (turn, *sides, _percent(shares[turn].value), _range(shares[turn]))
            for turn, *sides in zip(turns, right, wrong, strict=True)
        ],
        links={turn: kept_by(turns=turn) for turn in turns},
        note="Above each bar the share that is right: a score of at least 50 %. Its interval in the"
        f" table: {OVER_SCENES}{AS_SCORED if _mirrored(report) else ''}",
    )


def coverage(report: ReportData) -> Plot | None:
    """What share of the room's surface was seen after every turn, right against wrong."""
    curves = coverage_by_turn(report)
    if not curves:
        return None
    colours = {"right": palette.RIGHT, "wrong": palette.WRONG}

    def paint(axes: Any) -> None:
        for side, means in curves.items():
            turns = range(1, len(means) + 1)
            colour = colours[side]
            axes.plot(
                turns, [100 * m.value for m in means], color=colour,
                marker="o" if side == "right" else "s", ms=3.5,
                ls="-" if side == "right" else "--", label=f"{side} (n = {means[0].n})",
            )  # fmt: skip
            if means[0].low is not None:
                low, high = ([100 * (getattr(m, e) or 0) for m in means] for e in ("low", "high"))
                axes.fill_between(
                    turns, low, high, color=colour, alpha=0.18, lw=0 if len(means) > 1 else 4
                )
        axes.set_ylim(0, 1.08 * axes.dataLim.y1 or None)  # flat lines are not at the edge
        axes.grid(axis="y")
        axes.set_xlabel("turn")
        axes.set_ylabel("surface seen so far, %")
        whole(axes.xaxis)
        above(axes)

    return draw(
        "coverage",
        "Share of the room's visible surface seen, by turn",
        "Two rising curves of the mean share of the surface seen, for right and for wrong questions.",
        paint,
        (
            "turn",
            *(f"{side}, %" for side in curves),
            *(f"{side}, 95 % interval" for side in curves),
        ),
        [
            (
                turn + 1,
                *(_percent(means[turn].value) for means in curves.values()),
                *(_range(means[turn]) for means in curves.values()),
            )
            for turn in range(max(map(len, curves.values())))
        ],
        note="Means over questions; a question that has ended keeps what it had seen, so that every point"
        f" is over the same questions. 95 % intervals: {OVER_SCENES}"
        f"{AS_SCORED if _mirrored(report) else ''}",
    )


def causes(report: ReportData) -> Plot | None:
    """Why questions went as they did, by type."""
    by_type = causes_by_type(report)
    present = [cause for cause in palette.CAUSES if any(c[cause] for c in by_type.values())]
    if set(present) <= {Cause.OPEN}:
        return None

    def paint(axes: Any) -> None:
        names = [f"{type_words(kind)} (n = {c.total()})" for kind, c in by_type.items()]
        parts = {
            str(cause): (
                palette.CAUSES[cause],
                [100 * c[cause] / c.total() for c in by_type.values()],
            )
            for cause in present
        }
        links = [
            {"": kept_by(type=kind)} | {str(c): kept_by(type=kind, cause=str(c)) for c in present}
            for kind in by_type
        ]
        stacked(axes, names, parts, "questions", links=links)

    return draw(
        "causes",
        "Why: causes by type of question",
        "Stacked bars, one a type, of the share of questions with each cause.",
        paint,
        ("type", "n", *present),
        [
            (type_words(kind), c.total(), *(c[cause] for cause in present))
            for kind, c in by_type.items()
        ],
        height=1.3 + 0.27 * len(by_type),
        links=links_of(by_type),
        note=causes_meant(present, passive=report.config.passive)
        + (AS_SHOWN if _mirrored(report) else ""),
    )


def seen(report: ReportData) -> Plot | None:
    """The share of right questions by type: all named objects seen well, against the others."""
    by_type = right_when_seen(report)
    if not by_type:
        return None
    links = links_of(set(by_type) - {ALL_TYPES})
    sides = (
        ("all of it seen well", palette.BLUE, "o", -0.16),
        ("something never seen well", palette.ORANGE, "s", 0.16),
    )

    def paint(axes: Any) -> None:
        for side, (label, colour, mark, shift) in enumerate(sides):
            points = [(y + shift, both[side]) for y, both in enumerate(by_type.values())]
            known = [(y, point) for y, point in points if point.n]
            for y, point in known:
                if point.low is not None and point.high is not None:
                    interval_line(axes, [100 * point.low, 100 * point.high], y, colour)
            axes.plot(
                [100 * point.value for _, point in known], [y for y, _ in known], mark,
                color=colour, ms=4.5, label=label, clip_on=False,
            )  # fmt: skip
        names = [f"{type_words(kind)} (n = {a.n + b.n})" for kind, (a, b) in by_type.items()]
        name_rows(axes, names, [links.get(type_words(kind)) for kind in by_type])
        axes.set_xlim(0, 100)
        axes.grid(axis="x")
        axes.set_xlabel("right, %")
        above(axes, 2)

    return draw(
        "seen",
        "Right where what is named was seen, and where not",
        "Two dots a type with intervals: the share right of questions whose named objects were all seen"
        " well, and of those where something was not; for the size of a room, its surface.",
        paint,
        (
            "type",
            "seen: n",
            "right, %",
            "95 % interval",
            "not seen: n",
            "right, %",
            "95 % interval",
        ),
        [
            (
                type_words(kind),
                *(
                    cell
                    for side in both
                    for cell in (side.n, _percent(side.value) if side.n else "–", _range(side))
                ),
            )
            for kind, both in by_type.items()
        ],
        height=1.3 + 0.27 * len(by_type),
        links=links,
        note=f"95 % intervals: {OVER_SCENES} Different questions fall on either side, so a difference is a"
        " hint, not a proof."
        f"{AS_SHOWN if _mirrored(report) else ''}",
    )


def links_of(types: Iterable[str]) -> dict[Cell, str]:
    """Return where the questions of some types are in the index, by the types' words."""
    return {type_words(kind): kept_by(type=kind) for kind in types}


def _mirrored(report: ReportData) -> bool:
    return report.config.picture_stress.changes_truth


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _range(mean: Mean) -> str:
    if mean.low is None or mean.high is None:
        return "–"
    return f"{100 * mean.low:.1f} … {100 * mean.high:.1f}"


def mean(values: Sequence[tuple[Scene, float]]) -> Mean:
    """Return the mean of values of 0 to 1, each of a question about a scene, with its interval over scenes."""
    estimate = ratio([value for _, value in values], [scene for scene, _ in values])
    if estimate is None:
        return Mean(0, 0.0)
    bounds = estimate.interval(share=True)
    low, high = (None, None) if bounds is None else (end / 100 for end in bounds)
    return Mean(len(values), float(estimate.mean), low, high)


def scene_of(row: Mapping[str, Any]) -> Scene:
    """Return which scene a row of the results is about."""
    return row["dataset"], row["scene"]


def right_by_turns(report: ReportData) -> dict[int, Mean]:
    """Return the share of right questions, by the number of turns they used."""
    by_turns: dict[int, list[tuple[Scene, float]]] = {}
    for row in report.rows.values():
        if row["score"] is not None:
            right = float(outcome(row) == "right")
            by_turns.setdefault(row["turns"], []).append((scene_of(row), right))
    return {turns: mean(values) for turns, values in sorted(by_turns.items())}


def coverage_by_turn(report: ReportData) -> dict[str, list[Mean]]:
    """Return the mean coverage after every turn of the questions that were right, and wrong.

    A question that has ended keeps what it had seen, so that every point is over the same questions.
    Empty where no coverage is known.
    """
    curves: dict[str, list[tuple[Scene, list[float]]]] = {"right": [], "wrong": []}
    for question_id, diagnosis in report.own_diagnoses.items():
        seen = [turn.coverage for turn in diagnosis.turns if turn.coverage is not None]
        row = report.rows.get(question_id)
        if row is not None and seen and (side := outcome(row)) in curves:
            curves[side].append((scene_of(row), seen))
    longest = max((len(seen) for side in curves.values() for _, seen in side), default=0)
    return {
        side: [
            mean([(scene, seen[min(turn, len(seen) - 1)]) for scene, seen in questions])
            for turn in range(longest)
        ]
        for side, questions in curves.items()
        if questions
    }


def causes_by_type(report: ReportData) -> dict[str, Counter[str]]:
    """Return the number of questions by type and cause, known types first."""
    by_type: dict[str, Counter[str]] = {}
    for question_id, diagnosis in report.own_diagnoses.items():
        if question_id in report.rows:
            kind = report.rows[question_id]["type"]
            by_type.setdefault(kind, Counter())[str(diagnosis.cause)] += 1
    return {kind: by_type[kind] for kind in in_order(by_type)}


def right_when_seen(report: ReportData) -> dict[str, tuple[Mean, Mean]]:
    """Return the share of right questions: those whose objects were all seen well, and the others.

    By type, after all of them together; over questions whose answers were read and of which it can be
    told, as `seen` of a diagnosis' summary has them.
    """
    rights: dict[str, dict[bool, list[tuple[Scene, float]]]] = {}
    for question_id, diagnosis in report.own_diagnoses.items():
        row = report.rows.get(question_id)
        if row is None or diagnosis.shown is None or diagnosis.cause not in JUDGED:
            continue
        for kind in (ALL_TYPES, row["type"]):
            sides = rights.setdefault(kind, {True: [], False: []})
            right = float(diagnosis.cause is Cause.RIGHT)
            sides[diagnosis.shown].append((scene_of(row), right))
    return {
        kind: (mean(rights[kind][True]), mean(rights[kind][False]))
        for kind in [*rights][:1] + in_order(set(rights) - {ALL_TYPES})
    }
