"""Plots: their figures, their bytes, and that a strict page can hold them."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from render_agent.analysis.diagnosis.model import Cause, Diagnosis
from render_agent.analysis.diagnosis.summary import summary
from render_agent.analysis.report.index import headline
from render_agent.analysis.report.plots import belief_plots, cost_plots, outcome_plots, palette
from render_agent.analysis.report.plots.cost_plots import amount
from render_agent.analysis.report.plots.vector_plot import (
    LONGEST_NAME,
    above,
    draw,
    name_rows,
    settled,
)
from render_agent.score.published import FULL, NO_ORDER, PUBLISHED, STATIC, TASKS, comparable
from render_agent.web.templates import ASSETS

SVG = "{http://www.w3.org/2000/svg}"


def drawn(**options):
    def paint(axes):
        axes.bar([1, 2], [3, 4], color=palette.BLUE, label="a <b> & 'c'")
        axes.plot([1, 2], [1, 2], "o-", color=palette.VERMILLION, label="two")
        axes.set_xlabel("length, m")
        axes.set_ylabel("questions")
        above(axes)

    given = {"columns": ("x", "y"), "rows": [(1, 3), (2, 4)]}
    return draw("made", "A <title>", "What is there.", paint, **given | options)


def test_a_plot_is_an_element_that_names_itself_and_its_units():
    root = ElementTree.fromstring(drawn().svg)
    assert root.tag == f"{SVG}svg"
    assert root.attrib["role"] == "img"
    ids = root.attrib["aria-labelledby"].split()
    told = [next(e.text for e in root.iter() if e.get("id") == name) for name in ids]
    assert told == ["A <title>", "What is there."]
    words = [e.text for e in root.iter(f"{SVG}text")]
    assert {"A <title>", "length, m", "questions", "a <b> & 'c'", "two"} <= set(words)


def test_a_row_of_half_a_character_is_drawn_as_json_writes_it():
    def paint(axes):
        axes.barh([0], [1])
        name_rows(axes, ["a\ud800\x1b[2J"])

    svg = draw("made", "A title", "What is there.", paint, ("x",), [(1,)]).svg
    assert r"a\ud800\u001b[2J" in [e.text for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_long_names_leave_room_to_the_drawing_and_stay_apart():
    long = "positions_of_furniture_" * 8
    names = [
        "short",
        f"{long}0 (n = 16)",
        f"{long}1 (n = 16)",
        f"a{long}a",
        f"a{long[:90]}b{long[90:]}a",
    ]
    widths = []

    def paint(axes):
        axes.barh(range(len(names)), 1)
        name_rows(axes, names)
        axes.figure.get_layout_engine().execute(axes.figure)
        widths.append(axes.get_position().width)

    svg = draw("made", "A title", "What is there.", paint, ("x",), [(1,)]).svg
    words = {e.text for e in ElementTree.fromstring(svg).iter(f"{SVG}text")}
    told = {word for word in words if word == "short" or "…" in word}
    assert widths[0] > 0.45
    assert len(told) == len(names)
    assert sum(word.endswith("_0 (n = 16)") or word.endswith("_1 (n = 16)") for word in told) == 2
    assert max(map(len, told)) <= LONGEST_NAME + len("5: ")


def test_the_same_figures_give_the_same_bytes():
    assert drawn() == drawn()


def test_a_strict_page_can_hold_it():
    svg = drawn().svg
    assert not re.search(
        r"\sstyle=|<style|<metadata|url\((?!#plot-made-)|href=\"(?!#plot-made-)", svg
    )
    ids = re.findall(r'\sid="([^"]+)"', svg)
    assert len(ids) == len(set(ids))
    assert all(name.startswith("plot-made-") for name in ids)
    for target in re.findall(r"(?:url\(#|href=\"#)([\w.-]+)", svg):
        assert target in ids


def test_every_colour_of_a_plot_has_its_name_in_the_style():
    used = set(re.findall(r'(?:fill|stroke)="(#\w+)"', drawn().svg))
    assert {palette.BLUE, palette.VERMILLION} <= used <= set(palette.NAMES)
    styles = (ASSETS / "index.css").read_text("utf-8") + (ASSETS / "report.css").read_text("utf-8")
    dark = styles.split("prefers-color-scheme: dark")[1].split("}\n}")[0]
    for name in palette.NAMES.values():
        assert f".f-{name} {{ fill: var(--{name}); }}" in styles
        assert f".s-{name} {{ stroke: var(--{name}); }}" in styles
        assert f"--{name}: #" in dark


def test_the_intervals_of_plots_are_over_scenes():
    """Questions of one scene that agree count as one; of too few scenes there is no interval."""
    apart = [(("d", str(number)), float(number % 2)) for number in range(24)]
    together = [(("d", str(number // 4)), float(number // 4 % 2)) for number in range(24)]
    alone, clustered = (outcome_plots.mean(values) for values in (apart, together))
    assert alone.value == clustered.value == 0.5
    assert clustered.low < alone.low < 0.5 < alone.high < clustered.high
    few = outcome_plots.mean([(("d", str(number % 5)), 1.0) for number in range(20)])
    assert (few.n, few.value, few.low, few.high) == (20, 1, None, None)


def judged(cause, shown, score):
    """A question of a report as far as `right_when_seen` looks: its row and its diagnosis."""
    name = f"{cause} {shown} {score}"
    first = {"lamp": 0 if shown is not False else None}
    return (
        name,
        {
            "question_id": name,
            "type": "object_counting",
            "score": score,
            "dataset": "d",
            "scene": name,
        },
        Diagnosis(name, cause, ("lamp",), (), (), first, shown),
    )


def test_right_where_seen_is_counted_as_the_causes_are():
    """Half-known questions count on neither side, and in mirrored rooms right is as the cause has it."""
    made = [
        judged(Cause.RIGHT, True, 1.0),
        judged(Cause.RIGHT, True, 0.0),  # right in the mirrored room, wrong by the original truth
        judged(Cause.MISJUDGED, True, 0.2),
        judged(Cause.NEVER_LOOKED, False, 0.0),
        judged(Cause.STOPPED_EARLY, False, 0.0),
        judged(Cause.RIGHT, False, 1.0),
        judged(Cause.RIGHT, None, 1.0),
        judged(Cause.UNKNOWN, None, 0.0),
        judged(Cause.NO_ANSWER, True, 0.0),
        judged(Cause.OPEN, True, None),
    ]
    report = SimpleNamespace(
        rows={name: row for name, row, _ in made},
        own_diagnoses={name: diagnosis for name, _, diagnosis in made},
    )
    found = outcome_plots.right_when_seen(report)
    assert list(found) == [outcome_plots.ALL_TYPES, "object_counting"]
    for seen, unseen in found.values():
        assert (seen.n, seen.value) == (3, pytest.approx(2 / 3))
        assert (unseen.n, unseen.value) == (3, pytest.approx(1 / 3))
    states = [
        SimpleNamespace(id=name, question=SimpleNamespace(type=row["type"], change=None))
        for name, row, _ in made
    ]
    told = summary(states, report.own_diagnoses)["all"]["seen"]
    assert told["well"] == {"right": 2, "wrong": 1, "percent": 66.7}
    assert told["not_well"] == {"right": 1, "wrong": 2, "percent": 33.3}


def test_the_size_of_batches_is_kept_over_a_long_log():
    batches = [("batched", 64)] * 2000 + [("finishing", 3)] * 777
    found = cost_plots.batches_over_time(SimpleNamespace(batches=batches))
    assert len(found) <= cost_plots.MOST_BARS + 2
    assert found[-1][1] == len(batches)
    assert {(phase, size) for phase, _, size in found} == {("batched", 64.0), ("finishing", 3.0)}
    assert max(place for phase, place, _ in found if phase == "batched") == 2000


def test_published_rows_are_the_means_of_their_tasks():
    for row in PUBLISHED:
        if row.tasks:
            assert set(row.scores) <= set(TASKS)
            mean = sum(row.scores.values()) / len(row.scores)
            if row.official is not None:
                assert tuple(row.scores) == TASKS
            told = row.official or row.mean
            if told and abs(mean - told) > 0.06 and not row.secondary:
                assert f"its tasks come to {mean:.1f}" in row.note
        assert row.source
        assert re.match(r"20\d\d", row.date)
        assert row.shown
    for questions in {row.questions for row in PUBLISHED}:
        own = [r.official for r in PUBLISHED if r.questions == questions and r.official]
        assert own == sorted(own, reverse=True)


def test_a_run_is_set_against_rows_of_the_same_questions_only():
    assert {row.name for row in comparable("tiny")} == {"human"}
    full = comparable("full")
    assert {row.questions for row in full} == {FULL, NO_ORDER, STATIC}
    assert all(row.official is None for row in full if row.questions != FULL)
    assert comparable("debiased") == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (3.42, "3.4"),
        (12, "12"),
        (9752, "9752"),
        (14300000, "14.3M"),
        (456000, "456k"),
        (2e9, "2G"),
    ],
)
def test_amounts_are_short(value, words):
    assert amount(value) == words


@pytest.mark.parametrize(
    ("stamps", "notes"), [([], []), (["IN PROGRESS: 12 of 5130 questions done"], ["stand-ins"])]
)
def test_a_run_beside_the_papers_says_of_how_many_questions_and_of_what_it_is(stamps, notes):
    report = SimpleNamespace(
        config=SimpleNamespace(batch=True, asks_vsibench=True, partial=False, subset="full"),
        results={
            "official_over_scored": {"score": 41.2, "n": 1234},
            "official_raw": 39.9,
            "intervals": {"official": [40.0, 42.4]},
            "tasks": {"route_planning": 20.0},
        },
        stamps=stamps,
        notes=notes,
    )
    plot = headline.against_papers(report)
    parsed, words = [row for row in plot.rows if row[0].startswith("this run")]
    told = "; ".join([*stamps, *notes])
    assert parsed[:3] == ("this run, on the parsed answer", "41.2", "40.0 … 42.4")
    assert parsed[3 + TASKS.index("route_planning")] == "20.0"
    assert words[:3] == ("this run, on the reply's own words", "39.9", "–")
    for row in (parsed, words):
        assert row[-1].startswith("1,234 questions; official scorer, ")
        assert row[-1].endswith(told)
    assert plot.note.endswith(f" This run: {told}." if told else "not checked.")
    oracle = next(row for row in plot.rows if row[0] == "RieMind, GPT-4.1*")
    assert oracle[1] == "–"
    assert oracle[3:9] == ("86.5", "94.9", "97.9", "77.8", "92.7", "87.3")
    assert not any("human" in row[0] for row in plot.rows)
    report.config.partial = True
    assert headline.against_papers(report) is None


def test_ids_do_not_hang_on_the_last_bit_of_a_place():
    one = '<g clip-path="url(#pf68ee6434b)"><use xlink:href="#m0123456789"/></g><clipPath id="pf68ee6434b"/>'
    other = one.replace("f68ee6434b", "643a8e7eb9")
    assert settled(one) == settled(other)
    assert settled(one) == (
        '<g clip-path="url(#p0)"><use xlink:href="#m1"/></g><clipPath id="p0"/>'
    )


def test_how_sure_a_model_is_stands_beside_how_often_it_is_right():
    own = {"interval": None, "n": 4, "scenes": 1}
    last = {"ece": {"value": 0.25, **own}, "brier": {"value": 0.3, **own}}
    bins = [{"from": 0.7, "n": 4, "sure": 0.75, "found": 0.5}]
    plot = belief_plots.calibration({"calibration": bins, "last": last})
    assert [tuple(row) for row in plot.rows] == [("70", 4, "75", "50")]
    assert "calibration error 0.25; Brier score 0.30" in plot.note
    assert belief_plots.calibration({"calibration": [], "last": {}}) is None
