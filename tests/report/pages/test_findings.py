"""Tests of the key findings: correct, and limited to what the confidence intervals support."""

from types import SimpleNamespace

import pytest
from factories.reports import reported, run_rooms

from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.model import Cause, Diagnosis
from render_agent.report.diagnosis.sentences import explain_wrong_answer
from render_agent.report.pages.index.findings import against_chance, by_types, findings, reasons
from render_agent.tasks.question_types import DIRECTION


def judged(**counts):
    """Return rows and diagnoses with the given number of questions per cause."""
    causes = [Cause[name.upper()] for name, count in counts.items() for _ in range(count)]
    made = [Diagnosis(str(n), cause, (), (), (), {}) for n, cause in enumerate(causes)]
    rows = {
        found.question_id: SimpleNamespace(dataset="made", scene=f"{n % 20}")
        for n, found in enumerate(made)
    }
    return rows, {found.question_id: found for found in made}


@pytest.mark.parametrize(
    ("counts", "figures"),
    [
        ({"stopped_early": 53, "misjudged": 13, "right": 80}, "Of 66 wrong answers, 53 "),
        ({"misjudged": 30, "never_looked": 5}, "Of 35 wrong answers, 30 "),
        ({"never_looked": 30, "stopped_early": 29, "misjudged": 5}, "Of 64 wrong answers, 59 "),
        ({"no_answer": 9, "open": 50, "error": 50}, "Of 9 wrong answers, 9 "),
        ({"stopped_early": 3, "misjudged": 2}, None),  # three of five can be chance
        ({"stopped_early": 34, "unknown": 32}, None),  # 52 %, but the interval includes 50 %
        ({}, None),
    ],
)
def test_reason_of_most_wrong_answers(counts, figures):
    found = reasons(*judged(**counts))
    assert (found is None) == (figures is None)
    assert found is None or found.sentence.startswith(figures)


def test_reason_links_to_its_questions_if_a_filter_selects_them():
    assert reasons(*judged(stopped_early=53, right=80)).link == "#cause=stopped+early"
    assert reasons(*judged(never_looked=30, stopped_early=29, misjudged=5)).link == ""


def scored(**types):
    """Return results of types, each (score, low, high, score of the most-frequent-answer baseline)."""
    return {
        "types": {name: {"n": 9, "score": row[0]} for name, row in types.items()},
        "tasks": {},
        "intervals": {name: None if row[1] is None else row[1:3] for name, row in types.items()},
        "chance": {"frequency": {name: row[3] for name, row in types.items()}},
    }


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({"object_counting": (83, 75, 90, 60), "object_rel_distance": (27, 20, 34, 25)},
         ["Object count is 23 points above", "relative distance does not differ"]),
        ({"object_counting": (50, 44, 56, 60), "route_planning": (41, 35, 47, 30),
          "room_size_estimation": (41, 35, 47, 34)},
         ["Route plan is 11 points above", "room size is above", "object count is below"]),
        ({"object_counting": (62, 55, 70, 60), "route_planning": (80, None, None, 30)}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_types_compared_with_the_baseline(types, said):
    found = by_types(scored(**types))
    assert (found is None) == (said is None)
    assert all(part in found for part in said or ())


def test_most_frequent_answers_are_no_better_than_the_baseline(tmp_path):
    run = run_rooms(tmp_path, views="none", max_turns=2)
    said = findings(run, diagnose_run(run, 1))
    assert not any("baseline" in found.sentence for found in said)
    page = reported(run).read_text("utf-8")
    assert all(f"<li>{found.sentence}" in page for found in said)


def test_overfitted_baseline_is_not_reported():
    few = scored(object_counting=(10, 5, 15, 90), route_planning=(80, 70, 90, 30))
    few["types"]["object_counting"]["n"] = 2
    few["types"]["route_planning"]["n"] = 2
    assert "object count does not differ" in by_types(few)
    few |= {"official_over_scored": {"score": 10.0}}
    few["intervals"]["official"] = (5, 15)
    few["chance"]["frequency"]["macro"] = 76.0
    assert against_chance(few) is None
    for part in few["types"].values():
        part["n"] = 8
    assert "66 points below" in against_chance(few)
    assert "object count is below it" in by_types(few)


def test_directions_count_as_one_task():
    results = scored(
        object_rel_direction_easy=(50, 44, 56, 40), object_rel_direction_hard=(50, 44, 56, 40)
    )
    results["tasks"] = {DIRECTION: 50.0}
    results["intervals"][DIRECTION] = (44, 56)
    results["chance"]["frequency"][DIRECTION] = 40
    assert by_types(results).startswith("Relative direction is 10 points above")


@pytest.mark.parametrize("cause", list(Cause))
def test_only_wrong_answers_have_a_headline(cause):
    found = Diagnosis("1", cause, ("lamp",), (), (), {"lamp": None, "tv": None, "sofa": 0})
    said = explain_wrong_answer(found, (640, 480))
    wrong = (Cause.STOPPED_EARLY, Cause.NEVER_LOOKED, Cause.MISJUDGED, Cause.NO_ANSWER)
    assert (said is not None) == (cause in wrong)
    if cause in wrong[:2]:
        assert "lamp and tv" in said
