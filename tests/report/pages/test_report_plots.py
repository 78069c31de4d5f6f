"""Tests of plots: values, and escaping of texts."""

from types import SimpleNamespace
from xml.etree import ElementTree

from render_agent.report.diagnosis.model import Cause, Diagnosis
from render_agent.report.diagnosis.summary import summarize_diagnoses
from render_agent.report.pages.plots import run_plots
from render_agent.report.pages.plots.svg import draw_svg, legend, name_rows, start_at_zero

TEXT = "{http://www.w3.org/2000/svg}text"


def texts_of(svg):
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(TEXT)]


def test_texts_are_escaped():
    names = ["<script>x()</script>", "$\\frac{", "a & b", "a\ud800\x1b[2J"]

    def paint(axes):
        axes.barh(range(4), 1, label="a <b> & 'c'")
        name_rows(axes, names)
        legend(axes)

    svg = draw_svg(paint)
    assert {*names[:3], "a <b> & 'c'", r"a\ud800\u001b[2J"} <= set(texts_of(svg))
    assert "<script" not in svg


def test_curves_start_at_zero_below_space_for_their_markers():
    limits = []

    def paint(axes):
        axes.plot([1, 2], [50, 60])
        axes.fill_between([1, 2], [40, 50], [60, 80])
        start_at_zero(axes)
        limits.append(axes.get_ylim())

    draw_svg(paint)
    ((low, high),) = limits
    assert low == 0
    assert 83 < high < 90


def test_intervals_are_over_scenes():
    """Agreeing questions about a scene widen the interval; too few scenes have none."""
    apart = [(("d", str(number)), float(number % 2)) for number in range(24)]
    together = [(("d", str(number // 4)), float(number // 4 % 2)) for number in range(24)]
    alone, clustered = (run_plots.mean_share(values) for values in (apart, together))
    assert alone.percent == clustered.percent == 50
    assert clustered.bounds[0] < alone.bounds[0] < 50 < alone.bounds[1] < clustered.bounds[1]
    few_scenes = run_plots.mean_share([(("d", str(number % 5)), 1.0) for number in range(20)])
    assert few_scenes == (20, 100, None)


def diagnosed_question(cause, seen, score):
    """Return id, row and diagnosis of a question, with the fields that plots use."""
    name = f"{cause} {seen} {score}"
    first = {"lamp": 0 if seen is not False else None}
    row = SimpleNamespace(type="object_counting", score=score, dataset="d", scene=name)
    return name, row, Diagnosis(name, cause, ("lamp",), (), (), first, seen)


def make_run(pairs):
    """Return a run with these questions, with the fields that plots use, and their diagnoses."""
    stress = SimpleNamespace(changes_ground_truth=False)
    run = SimpleNamespace(
        rows={name: row for name, row, _ in pairs},
        states=[],
        parts=SimpleNamespace(image_stress=stress, passive=False),
    )
    return run, {name: diagnosis for name, _, diagnosis in pairs}


def test_visibility_plot_agrees_with_the_causes():
    """Questions with unknown visibility are excluded; in mirrored rooms, the cause determines what is right."""
    pairs = [
        diagnosed_question(Cause.RIGHT, True, 1.0),
        diagnosed_question(
            Cause.RIGHT, True, 0.0
        ),  # right in the mirrored room, wrong by the original ground truth
        diagnosed_question(Cause.MISJUDGED, True, 0.2),
        diagnosed_question(Cause.NEVER_LOOKED, False, 0.0),
        diagnosed_question(Cause.STOPPED_EARLY, False, 0.0),
        diagnosed_question(Cause.RIGHT, False, 1.0),
        diagnosed_question(Cause.RIGHT, None, 1.0),
        diagnosed_question(Cause.UNKNOWN, None, 0.0),
        diagnosed_question(Cause.NO_ANSWER, True, 0.0),
        diagnosed_question(Cause.OPEN, True, None),
    ]
    run, diagnoses = make_run(pairs)
    plot = run_plots.plot_visibility(run, diagnoses)
    assert [row[0] for row in plot.rows] == [run_plots.ALL_TYPES, "object count"]
    for _, n, right, _, other_n, other_right, _ in plot.rows:
        assert (n, right, other_n, other_right) == (3, "66.7", 3, "33.3")
    states = [
        SimpleNamespace(
            id=name, question=SimpleNamespace(type=row.type, dataset="", scene=""), change=None
        )
        for name, row, _ in pairs
    ]
    by_visibility = summarize_diagnoses(states, diagnoses, (640, 480))["all"]["seen"]
    assert by_visibility["well"] == {"right": 2, "wrong": 1, "percent": 66.7}
    assert by_visibility["not_well"] == {"right": 1, "wrong": 2, "percent": 33.3}


def test_causes_are_counted_by_type():
    pairs = [
        diagnosed_question(Cause.RIGHT, True, 1.0),
        diagnosed_question(Cause.MISJUDGED, True, 0.0),
    ]
    plot = run_plots.plot_causes(*make_run(pairs))
    assert plot.columns == ("type", "n", "score at least 50 %", "misjudged")
    assert "score at least 50 %" in texts_of(plot.svg)
    assert plot.rows == [("object count", 2, 1, 1)]
    assert run_plots.plot_causes(*make_run([diagnosed_question(Cause.OPEN, None, None)])) is None
