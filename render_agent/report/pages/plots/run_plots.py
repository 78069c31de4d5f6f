"""The plots of a run: scores, turns, what was seen, causes, beliefs and time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from render_agent.report.diagnosis.model import Cause, Diagnosis
from render_agent.report.diagnosis.summary import JUDGED, own_diagnoses, summarize_diagnoses
from render_agent.report.pages.plots import palette
from render_agent.report.pages.plots.svg import draw_svg, interval_line, legend, name_rows
from render_agent.report.pages.words import (
    causes_meant,
    in_order,
    outcome,
    type_words,
)
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData
from render_agent.score.intervals import LEAST_SCENES, ratio
from render_agent.score.tables import figure, interval
from render_agent.tasks.question_types import DIRECTION, DIRECTION_TYPES
from render_agent.util.display import duration

INTERVALS = f"95 % intervals: jackknife over scenes, none below {LEAST_SCENES} scenes."

MIRRORED = {
    "scored": " Right: by the truth of the room that is not mirrored, as in the scores above.",
    "shown": " Right: by the truth of the mirrored room, unlike the scores above.",
}

ALL_TYPES = "all types"

CHANCE = {"random": ("|", palette.SOFT), "frequency": ("D", palette.GREY)}
"""Mark and colour of every chance level."""

CURVES = {
    "found": ("named objects on its map", palette.BLUE, "o"),
    "right": ("objects on its map that exist", palette.GREEN, "s"),
    "seen_found": ("clearly visible objects on its map", palette.ORANGE, "^"),
}
"""Figures of beliefs by turn: label, colour and mark."""

Scene = tuple[str, str]
"""Data set and name of a scene."""

Diagnoses = Mapping[str, Diagnosis]

Cell = str | float | int | None


@dataclass(frozen=True)
class Plot:
    """A plot as the pages show it; alt: the drawing in words; columns, rows: its figures as a table, if any."""

    name: str
    title: str
    alt: str
    svg: str
    note: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()


class Share(NamedTuple):
    """A share of n questions in percent, and its 95 % interval over scenes if there are enough of them."""

    n: int
    percent: float
    bounds: Sequence[float] | None


def run_plots(run: RunData, diagnoses: Diagnoses) -> list[Plot]:
    """Return the plots of a run, without those for which it has no figures."""
    own = own_diagnoses(run.states, diagnoses)
    plots = (
        turns_used(run),
        causes(run, own),
        seen(run, own),
        coverage(run, own),
        maps_by_turn(run, own),
        seconds(run),
    )
    return [plot for plot in plots if plot is not None]


def share(values: Sequence[tuple[Scene, float]]) -> Share:
    """Return the mean of values from 0 to 1 in percent, each of a question about a scene."""
    estimate = ratio([value for _, value in values], [scene for scene, _ in values])
    if estimate is None:
        return Share(0, 0.0, None)
    return Share(len(values), 100 * float(estimate.mean), estimate.interval(share=True))


def scene_of(row: Row) -> Scene:
    """Return which scene a row of the results is about."""
    return row.dataset, row.scene


def type_scores(results: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
    """Return n and score of every type that was scored, the three directions below their task."""
    types = results["types"]
    directions = sum(types[name]["n"] for name in DIRECTION_TYPES if name in types)
    scores: dict[str, tuple[int, float | None]] = {}
    for name in in_order(types):
        if name in DIRECTION_TYPES and DIRECTION in results["tasks"]:
            scores.setdefault(DIRECTION, (directions, results["tasks"][DIRECTION]))
        scores[name] = types[name]["n"], types[name]["score"]
    return {name: (n, score) for name, (n, score) in scores.items() if score is not None}


def scores_by_type(results: Mapping[str, Any]) -> Plot | None:
    """The score of every type with its interval, against chance."""
    scores = type_scores(results)
    if not scores:
        return None
    bounds = {name: results["intervals"].get(name) for name in scores}

    def paint(axes: Any) -> None:
        for baseline, (mark, colour) in CHANCE.items():
            levels = [results["chance"][baseline].get(name) for name in scores]
            points = [(level, y) for y, level in enumerate(levels) if level is not None]
            if points:
                size = 12 if mark == "|" else 7.5
                axes.plot(*zip(*points, strict=True), mark, color=colour, ms=size, mew=1.4, mfc="none", label=baseline, clip_on=False)  # fmt: skip
        for y, name in enumerate(scores):
            interval_line(axes, bounds[name], y, palette.BLUE)
        points = [(score, y) for y, (_, score) in enumerate(scores.values())]
        axes.plot(
            *zip(*points, strict=True),
            "o",
            color=palette.BLUE,
            ms=6,
            label="this run",
            clip_on=False,
        )
        name_rows(axes, [f"{type_words(name)} (n = {n})" for name, (n, _) in scores.items()])
        axes.set_xlim(-1, 101)
        axes.grid()
        axes.set_xlabel("score, %")
        legend(axes)

    return Plot(
        "types",
        "Score by question type",
        "A dot per type with its 95 % interval, beside marks at the chance levels.",
        _draw(paint, 1.0 + 0.27 * len(scores)),
        f"{INTERVALS} Random: a uniform choice among the options. Frequency: the most frequent answer of each type, fitted"
        " on these questions.",
        ("type", "n", "score, %", "95 % interval", *(f"{name}, %" for name in CHANCE)),
        [
            (
                type_words(name),
                n,
                figure(score),
                interval(bounds[name]) or "–",
                *(figure(results["chance"][baseline].get(name)) for baseline in CHANCE),
            )
            for name, (n, score) in scores.items()
        ],
    )


def turns_used(run: RunData) -> Plot | None:
    """Right and wrong answers by the number of turns used."""
    by_turns: dict[int, list[tuple[Scene, float]]] = defaultdict(list)
    for row in run.rows.values():
        if row.score is not None:
            by_turns[row.turns].append((scene_of(row), float(outcome(row) == "right")))
    if not by_turns:
        return None
    turns = sorted(by_turns)
    right = [sum(value for _, value in by_turns[turn]) for turn in turns]
    wrong = [len(by_turns[turn]) - number for turn, number in zip(turns, right, strict=True)]

    def paint(axes: Any) -> None:
        axes.bar(turns, right, color=palette.BLUE, label="right", width=0.72)
        axes.bar(turns, wrong, bottom=right, color=palette.VERMILLION, label="wrong", width=0.72)
        for turn, number in zip(turns, right, strict=True):
            count = len(by_turns[turn])
            axes.annotate(f"{number / count:.0%}", (turn, count), (0, 3), textcoords="offset points", ha="center")  # fmt: skip
        axes.set_xticks(turns)
        axes.set_xlim(min(turns[0], 1) - 0.6, max(turns[-1], 6) + 0.6)
        axes.set_ylim(0, 1.12 * max(map(len, by_turns.values())))
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("turns used")
        axes.set_ylabel("questions")
        legend(axes)

    note = "Above each bar: the share of right answers (score at least 50 %)."
    return Plot(
        "turns",
        "Right and wrong answers by turns used",
        "Stacked bars: right and wrong answers for each number of turns used.",
        _draw(paint),
        note + _mirrored(run, "scored"),
        ("turns", "right", "wrong", "right, %", "95 % interval"),
        [
            (turn, f"{yes:.0f}", f"{no:.0f}", *_cells(share(by_turns[turn]))[1:])
            for turn, yes, no in zip(turns, right, wrong, strict=True)
        ],
    )


def causes(run: RunData, diagnoses: Diagnoses) -> Plot | None:
    """Why questions went as they did, by type."""
    by_type: dict[str, Counter[Cause]] = defaultdict(Counter)
    for question_id, diagnosis in diagnoses.items():
        by_type[run.rows[question_id].type][diagnosis.cause] += 1
    present = [cause for cause in palette.CAUSES if any(own[cause] for own in by_type.values())]
    if set(present) <= {Cause.OPEN}:
        return None
    counts = {kind: by_type[kind] for kind in in_order(by_type)}
    return Plot(
        "causes",
        "Causes by question type",
        "A stacked bar per type: the share of questions with each cause.",
        _stacked(
            {type_words(kind): own for kind, own in counts.items()},
            {cause: palette.CAUSES[cause] for cause in present},
        ),
        causes_meant(present, passive=run.parts.passive) + _mirrored(run, "shown"),
        ("type", "n", *map(str, present)),
        [
            (type_words(kind), own.total(), *(own[c] for c in present))
            for kind, own in counts.items()
        ],
    )


def seen(run: RunData, diagnoses: Diagnoses) -> Plot | None:
    """The share of right answers by type: all named objects clearly visible, against the others."""
    rights: dict[str, dict[bool, list[tuple[Scene, float]]]] = defaultdict(
        lambda: {True: [], False: []}
    )
    for question_id, diagnosis in diagnoses.items():
        if diagnosis.shown is not None and diagnosis.cause in JUDGED:
            row = run.rows[question_id]
            value = scene_of(row), float(diagnosis.cause is Cause.RIGHT)
            for kind in (ALL_TYPES, row.type):
                rights[kind][diagnosis.shown].append(value)
    if not rights:
        return None
    shares = {
        type_words(kind): (share(rights[kind][True]), share(rights[kind][False]))
        for kind in (ALL_TYPES, *in_order(rights.keys() - {ALL_TYPES}))
    }
    sides = (("all objects seen", palette.BLUE, "o"), ("some never seen", palette.ORANGE, "s"))

    def paint(axes: Any) -> None:
        for side, (label, colour, mark) in enumerate(sides):
            known = [
                (y + 0.32 * side - 0.16, both[side])
                for y, both in enumerate(shares.values())
                if both[side].n
            ]
            for y, point in known:
                interval_line(axes, point.bounds, y, colour)
            axes.plot([point.percent for _, point in known], [y for y, _ in known], mark, color=colour, ms=4.5, label=label, clip_on=False)  # fmt: skip
        name_rows(axes, [f"{kind} (n = {a.n + b.n})" for kind, (a, b) in shares.items()])
        axes.set_xlim(-1, 101)
        axes.grid(axis="x")
        axes.set_xlabel("right, %")
        legend(axes)

    return Plot(
        "seen",
        "Right answers by visibility of the named objects",
        "Two dots per type: the share of right answers with and without clear views of all named objects.",
        _draw(paint, 1.0 + 0.27 * len(shares)),
        f"{INTERVALS} The two groups are different questions, so a difference is a hint, not a proof."
        f"{_mirrored(run, 'shown')}",
        (
            "type",
            "seen: n",
            "right, %",
            "95 % interval",
            "not seen: n",
            "right, %",
            "95 % interval",
        ),
        [(kind, *_cells(a), *_cells(b)) for kind, (a, b) in shares.items()],
    )


def coverage(run: RunData, diagnoses: Diagnoses) -> Plot | None:
    """The share of the room's surface seen after every turn, for right and wrong answers."""
    sides: dict[str, list[tuple[Scene, list[float]]]] = {"right": [], "wrong": []}
    for question_id, diagnosis in diagnoses.items():
        shown = [turn.coverage for turn in diagnosis.turns if turn.coverage is not None]
        row = run.rows[question_id]
        if shown and outcome(row) in sides:
            sides[outcome(row)].append((scene_of(row), shown))
    longest = max((len(shown) for own in sides.values() for _, shown in own), default=0)
    if not longest:
        return None
    curves = {
        side: [
            # a question that has ended keeps what it had seen, so that every point is over the same questions
            share([(scene, shown[min(turn, len(shown) - 1)]) for scene, shown in own])
            for turn in range(longest)
        ]
        for side, own in sides.items()
        if own
    }

    def paint(axes: Any) -> None:
        turns = range(1, longest + 1)
        for side, points in curves.items():
            colour, mark = (palette.BLUE, "o-") if side == "right" else (palette.VERMILLION, "s--")
            label = f"{side} (n = {points[0].n})"
            axes.plot(turns, [p.percent for p in points], mark, color=colour, ms=3.5, label=label)
            _band(axes, turns, [p.bounds for p in points], colour)
        axes.set_ylim(bottom=0)
        _by_turn(axes, "surface seen so far, %")

    return Plot(
        "coverage",
        "Share of the room's visible surface seen, by turn",
        "Two rising curves: the mean share of the surface seen, for right and for wrong answers.",
        _draw(paint),
        f"Means over questions. {INTERVALS}{_mirrored(run, 'scored')}",
    )


def maps_by_turn(run: RunData, diagnoses: Diagnoses) -> Plot | None:
    """How much of what a question names is on the model's map after every turn, and how much of the map is true."""
    if "beliefs" not in run.results:
        return None
    beliefs = run.results["beliefs"]
    figures = summarize_diagnoses(run.states, diagnoses, run.config.image_size)
    by_turn = figures["beliefs"]["turns"] if "beliefs" in figures else []
    seen_found = {row["turn"]: row["seen_found"] for row in by_turn}
    rows = [{**row, "seen_found": seen_found.get(row["turn"])} for row in beliefs["turns"]]
    curves = [name for name in CURVES if any(row.get(name) for row in rows)]
    if not curves:
        return None

    def paint(axes: Any) -> None:
        for name in curves:
            label, colour, mark = CURVES[name]
            known = [(row["turn"] + 1, row[name]) for row in rows if row.get(name)]
            turns, points = [turn for turn, _ in known], [point for _, point in known]
            label = f"{label} (n = {points[-1]['n']})"
            axes.plot(turns, [p["value"] for p in points], mark + "-", color=colour, ms=4, label=label)  # fmt: skip
            _band(axes, turns, [p["interval"] for p in points], colour)
        axes.set_ylim(0, 100)
        _by_turn(axes, "objects, %", 1)

    return Plot(
        "beliefs",
        "The model's map by turn",
        "Curves over turns: the share of named objects on its map, and of objects on its map that exist.",
        _draw(paint, 3.3),
        f"An object is on the map if the map has one of its category within {beliefs['radius_metres']:g} m of its centre."
        f" {INTERVALS}",
    )


def seconds(run: RunData) -> Plot | None:
    """Where the time of all turns went."""
    longest = max((len(state.turns) for state in run.states), default=0)
    turns = [
        [state.turns[n] for state in run.states if len(state.turns) > n] for n in range(longest)
    ]
    parts = {
        "rendering": (palette.GREEN, [sum(t.seconds.rendering for t in own) for own in turns]),
        "waiting": (palette.PALE, [sum(t.seconds.waiting for t in own) for own in turns]),
        # the seconds of generation are the batch's
        "generating": (
            palette.BLUE,
            [sum(t.seconds.generating / t.batch_size for t in own) for own in turns],
        ),
    }
    if not any(sum(values) for _, values in parts.values()):
        return None

    def paint(axes: Any) -> None:
        bottom = [0.0] * longest
        for part, (colour, values) in parts.items():
            label = f"{part} {duration(sum(values))}"
            axes.bar(range(1, longest + 1), values, bottom=bottom, color=colour, label=label, width=0.72)  # fmt: skip
            bottom = [a + b for a, b in zip(bottom, values, strict=True)]
        axes.set_xticks(range(1, longest + 1))
        axes.set_ylim(0, 1.05 * max(bottom))
        axes.set_xlabel("turn")
        axes.set_ylabel("seconds")
        legend(axes)

    return Plot(
        "time",
        "Where the time went, by turn",
        "A stacked bar per turn: seconds of rendering, waiting and generating.",
        _draw(paint),
        "Summed over questions that ran side by side, so more than the time on the clock.",
    )


def _draw(paint: Callable[[Any], None], height: float = 3.0) -> str:
    return draw_svg(lambda figure: paint(figure.subplots()), height=height)


def _stacked(counts: Mapping[str, Counter[Any]], colours: Mapping[Any, str]) -> str:
    """Draw a horizontal bar of 100 % for every name, divided by what was counted."""

    def paint(axes: Any) -> None:
        left = [0.0] * len(counts)
        for part, colour in colours.items():
            percents = [100 * own[part] / own.total() for own in counts.values()]
            axes.barh(range(len(counts)), percents, left=left, color=colour, label=str(part), height=0.72)  # fmt: skip
            left = [a + b for a, b in zip(left, percents, strict=True)]
        name_rows(axes, [f"{name} (n = {own.total()})" for name, own in counts.items()])
        axes.set_xlim(0, 100)
        axes.set_xlabel("questions, %")
        legend(axes, 4)

    return _draw(paint, 1.1 + 0.27 * len(counts))


def _by_turn(axes: Any, label: str, columns: int = 3) -> None:
    """Label the axes of curves over turns."""
    axes.grid(axis="y")
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_xlabel("turn")
    axes.set_ylabel(label)
    legend(axes, columns)


def _band(
    axes: Any, turns: Iterable[int], bounds: Sequence[Sequence[float] | None], colour: str
) -> None:
    known = [(turn, *own) for turn, own in zip(turns, bounds, strict=True) if own is not None]
    if known:
        places, low, high = zip(*known, strict=True)
        axes.fill_between(places, low, high, color=colour, alpha=0.15, lw=0)


def _cells(share: Share) -> tuple[Cell, ...]:
    if not share.n:
        return 0, "–", "–"
    return share.n, figure(share.percent), interval(share.bounds) or "–"


def _mirrored(run: RunData, what: str) -> str:
    return MIRRORED[what] if run.parts.picture_stress.changes_truth else ""
