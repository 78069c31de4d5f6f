"""Plots of a run: scores, turns, visibility, causes and time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from render_agent.report.diagnosis.diagnose import without_counterparts
from render_agent.report.diagnosis.model import JUDGED, Cause, Diagnosis
from render_agent.report.elapsed_time import elapsed_by_turn
from render_agent.report.pages.plots import palette
from render_agent.report.pages.plots.svg import (
    Dots,
    draw_dots,
    draw_svg,
    label_curve_axes,
    legend,
    name_rows,
    series_style,
    start_at_zero,
)
from render_agent.report.report_part import report_parts
from render_agent.report.sentences.labels import (
    OUTCOME_LABELS,
    explain_causes,
    outcome_label,
)
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData
from render_agent.score.intervals import MIN_SCENES, method_words, ratio
from render_agent.score.tables import figure, interval_cell
from render_agent.tasks.built_in_types import DIRECTION
from render_agent.tasks.question_types import DIRECTION_TYPES, sort_types, type_label
from render_agent.util.display import format_duration


def interval_note() -> str:
    """Return how the intervals of a plot were computed."""
    return f"95 % CI: {method_words()} (at least {MIN_SCENES} scenes)."


NO_PROOF = "Answers with high scores may have the same history, so a cause is not proven."

MIRRORED = {
    "scored": " Scores by the ground truth of the original room, as above.",
    "shown": " Scores by the ground truth of the mirrored room, unlike those above.",
}

ALL_TYPES = "all types"

# chance level -> marker and colour
CHANCE = {"random": ("|", palette.SOFT), "frequency": ("D", palette.GREY)}

Scene = tuple[str, str]  # data set, name
Diagnoses = Mapping[str, Diagnosis]  # diagnoses by question id

Cell = str | float | int | None


@dataclass(frozen=True)
class Plot:
    """A plot with its texts."""

    name: str
    title: str
    alt: str
    """Description of the drawing for screen readers."""
    svg: str
    note: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    """The plotted values as a table; may be empty."""


class Share(NamedTuple):
    """Share of n questions."""

    n: int
    percent: float
    bounds: Sequence[float] | None
    """95 % confidence interval over scenes; None for too few scenes."""


def run_plots(run: RunData, diagnoses: Diagnoses) -> list[Plot]:
    """Return the plots of a run, omitting those without data."""
    originals = without_counterparts(run, diagnoses)
    plots = (
        plot_turns(run),
        plot_images({"": run.results["score_by_images"]}),
        plot_target_errors(run.results),
        plot_causes(run, originals),
        plot_visibility(run, originals),
        plot_coverage(run, originals),
        *(plot for part in report_parts().values() for plot in part.plots(run, originals)),
        plot_time(run),
    )
    return [plot for plot in plots if plot is not None]


def write_plots(folder: Path, *plots: Plot | None) -> list[Plot]:
    """Write plots to the subfolder `plots`; return those that are not None."""
    (folder / "plots").mkdir(exist_ok=True)
    drawn = [plot for plot in plots if plot is not None]
    for plot in drawn:
        (folder / "plots" / f"{plot.name}.svg").write_text(plot.svg, "utf-8")
    return drawn


def mean_share(values: Sequence[tuple[Scene, float]]) -> Share:
    """Return the mean in percent of one value from 0 to 1 per question."""
    estimate = ratio([value for _, value in values], [scene for scene, _ in values])
    if estimate is None:
        return Share(0, 0.0, None)
    return Share(len(values), 100 * float(estimate.mean), estimate.interval(share=True))


def scene_of(row: Row) -> Scene:
    """Return the scene of a row of the results."""
    return row.dataset, row.scene


def type_scores(results: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
    """Return n and score of every scored type, with the three direction types after their task."""
    types = results["types"]
    directions = sum(types[name]["n"] for name in DIRECTION_TYPES if name in types)
    scores: dict[str, tuple[int, float | None]] = {}
    for name in sort_types(types):
        if name in DIRECTION_TYPES and DIRECTION in results["tasks"]:
            scores.setdefault(DIRECTION, (directions, results["tasks"][DIRECTION]))
        scores[name] = types[name]["n"], types[name]["score"]
    return {name: (n, score) for name, (n, score) in scores.items() if score is not None}


def plot_scores(results: Mapping[str, Any]) -> Plot | None:
    """Plot the score of every type with its confidence interval and the chance levels."""
    scores = type_scores(results)
    if not scores:
        return None
    bounds = {name: results["intervals"].get(name) for name in scores}
    levels = {name: results["chance"][name] for name in CHANCE}
    baselines = [
        Dots(name, colour, mark, [levels[name].get(kind) for kind in scores])
        for name, (mark, colour) in CHANCE.items()
    ]
    values = [score for _, score in scores.values()]
    own_scores = Dots("this run", palette.BLUE, "o", values, [*bounds.values()])
    svg = draw_dots(
        [f"{type_label(name)} (n = {n})" for name, (n, _) in scores.items()],
        [*baselines, own_scores],
        "score (%)",
        side_by_side=False,
    )
    return Plot(
        "types",
        "Score by question type",
        "One dot per type with its 95 % confidence interval, and marks at the chance levels.",
        svg,
        f"{interval_note()}{''.join(f' {name.capitalize()}: {note}.' for name, note in results.get('baselines', {}).items())}",
        ("type", "n", "score (%)", "95 % CI", *(f"{name} (%)" for name in CHANCE)),
        [
            (
                type_label(name),
                n,
                figure(score),
                interval_cell(bounds[name]),
                *(figure(level.get(name)) for level in levels.values()),
            )
            for name, (n, score) in scores.items()
        ],
    )


def plot_turns(run: RunData) -> Plot | None:
    """Plot answers with high and low scores by the number of turns used."""
    by_turns: dict[int, list[tuple[Scene, float]]] = defaultdict(list)
    for row in run.rows.values():
        if row.score is not None:
            by_turns[row.turns].append((scene_of(row), float(outcome_label(row) == "right")))
    if not by_turns:
        return None
    turns = sorted(by_turns)
    right = [sum(value for _, value in by_turns[turn]) for turn in turns]
    wrong = [len(by_turns[turn]) - number for turn, number in zip(turns, right, strict=True)]

    def paint(axes: Any) -> None:
        axes.bar(turns, right, color=palette.BLUE, label=OUTCOME_LABELS["right"], width=0.72)
        axes.bar(
            turns,
            wrong,
            bottom=right,
            color=palette.VERMILLION,
            label=OUTCOME_LABELS["wrong"],
            width=0.72,
        )
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

    note = "Percentages: share of answers with a score of at least 50 %."
    return Plot(
        "turns",
        "Answers by turns used",
        "Stacked bars for each number of turns used: answers that score at least 50 %, and the others.",
        draw_svg(paint),
        note + _mirror_note(run, "scored"),
        ("turns", *list(OUTCOME_LABELS.values())[:2], "share (%)", "95 % CI"),
        [
            (turn, f"{num_right:.0f}", f"{num_wrong:.0f}", *_cells(mean_share(by_turns[turn]))[1:])
            for turn, num_right, num_wrong in zip(turns, right, wrong, strict=True)
        ],
    )


def plot_images(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> Plot | None:
    """Plot the score by number of images seen; None if the runs share no scored question, or all saw as many images."""
    if not all(curves.values()) or all(len(points) == 1 for points in curves.values()):
        return None
    questions = "questions that all runs have scored" if len(curves) > 1 else "scored questions"

    def paint(axes: Any) -> None:
        end = 0.5 + max(points[-1]["images"] for points in curves.values())
        for number, (label, points) in enumerate(curves.items()):
            colour, marker = series_style(number)
            images = [*(point["images"] for point in points), end]
            scores = [point["score"] for point in (*points, points[-1])]
            axes.plot(images, scores, f"{marker}-", color=colour, ms=4, label=label, drawstyle="steps-post", markevery=range(len(points)))  # fmt: skip
            bounds = [point["interval"] for point in (*points, points[-1])]
            shade_band(axes, images, bounds, colour, step="post")
        start_at_zero(axes)
        label_curve_axes(axes, "images seen", "score (%)", 6 if len(curves) > 1 else 0)

    return Plot(
        "images",
        "Score by number of images seen",
        "A curve for each run: its score if every dialogue had ended after this many images.",
        draw_svg(paint),
        f"Over the {questions}. A dialogue that is longer counts with its latest answer until then, and scores 0 if it"
        f" had given none. {interval_note()}",
        (*["run"] * (len(curves) > 1), "images", "ended", "score (%)", "95 % CI"),
        [
            (
                *[label] * (len(curves) > 1),
                point["images"],
                point["ended"],
                figure(point["score"]),
                interval_cell(point["interval"]),
            )
            for label, points in curves.items()
            for point in points
        ],
    )


def plot_target_errors(results: Mapping[str, Any]) -> Plot | None:
    """Plot the mean errors of the camera by turn; None if no answer is a pose."""
    points = results.get("views", {}).get("by_turn", [])
    if not points:
        return None
    curves = {
        "position_metres": ("position error (m)", palette.BLUE, "o-"),
        "heading_degrees": ("heading error (°)", palette.ORANGE, "s--"),
    }

    def paint(axes: Any) -> None:
        turns = [point["turn"] for point in points]
        for curve_axes, (name, (label, colour, mark)) in zip(
            (axes, axes.twinx()), curves.items(), strict=True
        ):
            means = [point[name]["mean"] for point in points]
            curve_axes.plot(turns, means, mark, color=colour, ms=4, label=label)
            shade_band(curve_axes, turns, [point[name]["interval"] for point in points], colour)
            start_at_zero(curve_axes)
            curve_axes.set_ylabel(label)
        label_curve_axes(axes, "turns taken", curves["position_metres"][0])

    columns = ("success", "overlap", "position_metres", "heading_degrees")
    return Plot(
        "target-errors",
        "Distance from the target by turn",
        "Two curves by turn: the mean position error in metres, and the mean heading error in degrees.",
        draw_svg(paint),
        f"Means over questions; a dialogue that has ended counts with its last pose. {interval_note()}",
        ("turns", "success (%)", "overlap (%)", "position error (m)", "heading error (°)"),
        [(p["turn"], *(f"{p[name]['mean']:.1f}" for name in columns)) for p in points],
    )


def plot_causes(run: RunData, diagnoses: Diagnoses) -> Plot | None:
    """Plot the causes of high and low scores by type."""
    by_type: dict[str, Counter[Cause]] = defaultdict(Counter)
    poses = {state.id for state in run.states if state.target_errors}  # they have no cause
    for question_id, diagnosis in diagnoses.items():
        if question_id not in poses:
            by_type[run.rows[question_id].type][diagnosis.cause] += 1
    present = [cause for cause in palette.CAUSES if any(c[cause] for c in by_type.values())]
    if set(present) <= {Cause.OPEN}:
        return None
    counts = {kind: by_type[kind] for kind in sort_types(by_type)}
    return Plot(
        "causes",
        "Causes by question type",
        "One stacked bar per type: the share of questions with each cause.",
        _stacked_bars(
            {
                type_label(kind): Counter({cause.label: n for cause, n in counter.items()})
                for kind, counter in counts.items()
            },
            {cause.label: palette.CAUSES[cause] for cause in present},
        ),
        f"{explain_causes(present, passive=run.parts.passive)} {NO_PROOF}{_mirror_note(run, 'shown')}",
        ("type", "n", *(cause.label for cause in present)),
        [
            (type_label(kind), counter.total(), *(counter[c] for c in present))
            for kind, counter in counts.items()
        ],
    )


def plot_visibility(run: RunData, diagnoses: Diagnoses) -> Plot | None:
    """Plot the share of answers with high scores by type, with and without clear views of all named objects."""
    rights: dict[str, dict[bool, list[tuple[Scene, float]]]] = defaultdict(
        lambda: {True: [], False: []}
    )
    for question_id, diagnosis in diagnoses.items():
        if diagnosis.saw_all is not None and diagnosis.cause in JUDGED:
            row = run.rows[question_id]
            value = scene_of(row), float(diagnosis.cause is Cause.RIGHT)
            for kind in (ALL_TYPES, row.type):
                rights[kind][diagnosis.saw_all].append(value)
    if not rights:
        return None
    shares = {
        type_label(kind): (mean_share(rights[kind][True]), mean_share(rights[kind][False]))
        for kind in (ALL_TYPES, *sort_types(rights.keys() - {ALL_TYPES}))
    }
    sides = (("all clearly visible", palette.BLUE, "o"), ("not all", palette.ORANGE, "s"))
    series = [
        Dots(*style, [s[side].percent if s[side].n else None for s in shares.values()], [s[side].bounds for s in shares.values()])
        for side, style in enumerate(sides)
    ]  # fmt: skip
    svg = draw_dots(
        [f"{kind} (n = {a.n + b.n})" for kind, (a, b) in shares.items()],
        series,
        "score at least 50 % (% of answers)",
    )
    return Plot(
        "seen",
        "Answers by visibility of the named objects",
        "Two dots per type: the share of answers that score at least 50 %, with and without clear views of all named objects.",
        svg,
        f"{interval_note()} The groups contain different questions, so a difference does not prove that visibility helps."
        f"{_mirror_note(run, 'shown')}",
        (
            "type",
            "n (all visible)",
            "share (%)",
            "95 % CI",
            "n (others)",
            "share (%)",
            "95 % CI",
        ),
        [(kind, *_cells(a), *_cells(b)) for kind, (a, b) in shares.items()],
    )


def plot_coverage(run: RunData, diagnoses: Diagnoses) -> Plot | None:
    """Plot the share of the room's surface seen by each turn, for answers with high and low scores; None for single turns."""
    sides: dict[str, list[tuple[Scene, list[float]]]] = {"right": [], "wrong": []}
    for question_id, diagnosis in diagnoses.items():
        shares = [turn.coverage for turn in diagnosis.turns if turn.coverage is not None]
        row = run.rows[question_id]
        if shares and outcome_label(row) in sides:
            sides[outcome_label(row)].append((scene_of(row), shares))
    num_turns = max((len(shares) for group in sides.values() for _, shares in group), default=0)
    if num_turns < 2:
        return None
    curves = {
        side: [
            # finished questions keep their last value, so that all points are over the same questions
            mean_share([(scene, shares[min(turn, len(shares) - 1)]) for scene, shares in group])
            for turn in range(num_turns)
        ]
        for side, group in sides.items()
        if group
    }

    def paint(axes: Any) -> None:
        turns = range(1, num_turns + 1)
        for side, points in curves.items():
            colour, mark = (palette.BLUE, "o-") if side == "right" else (palette.VERMILLION, "s--")
            label = f"{OUTCOME_LABELS[side]} (n = {points[0].n})"
            axes.plot(turns, [p.percent for p in points], mark, color=colour, ms=3.5, label=label)
            shade_band(axes, turns, [p.bounds for p in points], colour)
        start_at_zero(axes)
        label_curve_axes(axes, "turn", "surface seen so far (%)")

    return Plot(
        "coverage",
        "Share of the room's visible surface seen, by turn",
        "Two rising curves: the mean share of the surface seen, for answers that score at least 50 % and for the others.",
        draw_svg(paint),
        f"Mean over questions. {interval_note()}{_mirror_note(run, 'scored')}",
    )


def plot_time(run: RunData) -> Plot | None:
    """Plot the elapsed time by turn; None for single turns, or if it is not recorded."""
    elapsed = elapsed_by_turn(run.dialogues)
    if len(elapsed) < 2:
        return None

    def paint(axes: Any) -> None:
        axes.bar(range(1, len(elapsed) + 1), elapsed, color=palette.BLUE, width=0.72)
        axes.set_xticks(range(1, len(elapsed) + 1))
        axes.set_xlabel("turn")
        axes.set_ylabel("elapsed seconds")

    seconds = run.results["totals"]["seconds"]
    return Plot(
        "time",
        "Time by turn",
        "One bar per turn: the elapsed seconds.",
        draw_svg(paint),
        f"Together {format_duration(sum(elapsed))}. Time in which several turns were in progress counts for the one that"
        f" ended first. Rendering took {format_duration(seconds['rendering'])}, generating"
        f" {format_duration(seconds['generating'])}.",
        ("turn", "elapsed (s)"),
        [(str(number), round(value, 1)) for number, value in enumerate(elapsed, start=1)],
    )


def _stacked_bars(counts: Mapping[str, Counter[Any]], colours: Mapping[Any, str]) -> str:
    """Draw one horizontal 100 % stacked bar per counter."""

    def paint(axes: Any) -> None:
        left = [0.0] * len(counts)
        for part, colour in colours.items():
            percents = [100 * counter[part] / counter.total() for counter in counts.values()]
            axes.barh(range(len(counts)), percents, left=left, color=colour, label=str(part), height=0.72)  # fmt: skip
            left = [a + b for a, b in zip(left, percents, strict=True)]
        name_rows(axes, [f"{name} (n = {counter.total()})" for name, counter in counts.items()])
        axes.set_xlim(0, 100)
        axes.set_xlabel("questions (%)")
        legend(axes, 4)

    return draw_svg(paint, height=1.1 + 0.27 * len(counts))


def shade_band(
    axes: Any,
    turns: Iterable[float],
    bounds: Sequence[Sequence[float] | None],
    colour: str,
    step: str | None = None,
) -> None:
    """Shade the confidence intervals of a curve."""
    band = [(turn, *ends) for turn, ends in zip(turns, bounds, strict=True) if ends is not None]
    if band:
        x, low, high = zip(*band, strict=True)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0, step=step)


def _cells(share: Share) -> tuple[Cell, ...]:
    if not share.n:
        return 0, "–", "–"
    return share.n, figure(share.percent), interval_cell(share.bounds)


def _mirror_note(run: RunData, truth: str) -> str:
    """Return which ground truth a plot uses if the run mirrors rooms; `truth` is a key of MIRRORED."""
    return MIRRORED[truth] if run.parts.image_stress.changes_ground_truth else ""
