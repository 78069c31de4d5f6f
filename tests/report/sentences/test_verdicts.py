"""The verdict of a comparison, the marks of its rows, the facts that differ, and tables to copy."""

import csv
import io
import re

import pytest
from factories.runs import finish_run, make_config, make_questions

from render_agent.options import RunConfig
from render_agent.report.comparison.compare_runs import sides_of
from render_agent.report.comparison.comparison_table import FORMATS, table_cells
from render_agent.report.sentences.facts import facts_line, request_facts
from render_agent.report.sentences.verdicts import (
    ABSENT,
    difference_lines,
    differences,
    direction,
    verdict,
)
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.score.comparison import Side, compare, correct_p_values, differing_options
from render_agent.score.power import plan
from render_agent.score.summary import MEAN_NAMES

TYPES = ("object_counting", "object_abs_distance", "object_size_estimation", "route_planning")


def side(name, scores, types=TYPES[:1]):
    """Return a run with these scores, one scene per score and a question of each type in every scene."""
    rows = [
        {
            "question_id": f"{kind} {n}",
            "type": kind,
            "dataset": "d",
            "scene": f"s{n}",
            "truth": "2",
            "answer": "2",
            "score": score,
        }
        for kind in types
        for n, score in enumerate(scores)
    ]
    return Side(name, {"questions": rows})


def pair(a, b, types=TYPES[:1]):
    return compare(side("a", a, types), side("b", b, types))


def test_a_difference_is_stated_with_its_interval_and_p():
    better = pair([0.2, 0.4] * 10, [0.5, 0.6] * 10)
    entry = better["differences"]["official_raw"]
    sentence = verdict(better, "A", "B")
    low, high = entry["interval"]
    assert sentence.startswith(f"B is 25.0 points above A (95 % CI {low:.1f} to {high:.1f}, p")
    assert "VSI-Bench score" in sentence
    worse = pair([0.5, 0.6] * 10, [0.2, 0.4] * 10)
    assert f"B is 25.0 points below A (95 % CI {low:.1f} to {high:.1f}, p" in verdict(
        worse, "A", "B"
    )


def test_no_difference_is_claimed_without_evidence():
    unclear = pair([0.2, 0.4] * 10, [0.4, 0.21] * 10)
    sentence = verdict(unclear, "A", "B")
    assert sentence.startswith("No difference between A and B can be shown")
    assert "too few scenes to estimate" in sentence
    results = {
        "errors": {"official_raw": {"error": 3.0, "freedom": 19, "scenes": 20, "kurtosis": 3.0}},
        "n": 20,
        "official_raw": 30,
        "official_over_scored": {"score": 30},
    }
    unclear["power"] = plan(results, 10, 0.8, unclear)
    row = unclear["power"]["needs"][0]
    sentence = verdict(unclear, "A", "B")
    if row["scenes"] > 20:
        assert f"about {row['scenes']} scenes (95 % CI " in sentence
    else:
        assert f"with 20 scenes, {row['seen']:.1f} points would be detected" in sentence


def test_more_scenes_are_requested_only_if_there_are_too_few():
    few_scenes = pair([0.0, 1.0] * 8, [1.0, 0.0] * 8)
    results = {
        "errors": {"official_raw": {"error": 3.0, "freedom": 15, "scenes": 16, "kurtosis": 3.0}},
        "n": 16,
        "official_raw": 50,
        "official_over_scored": {"score": 50},
    }
    few_scenes["power"] = plan(results, 10, 0.8, few_scenes)
    needed = few_scenes["power"]["needs"][0]["scenes"]
    assert needed > 16
    assert f"about {needed:,} scenes (95 % CI " in verdict(few_scenes, "a", "b")


def test_too_few_scenes_allow_no_test():
    sentence = verdict(pair([0.2] * 5, [0.9] * 5), "A", "B")
    assert "can be tested" in sentence
    assert "+70.0 points" in sentence
    assert "5 scenes; at least 6" in sentence


def test_marks_follow_the_corrected_p_value():
    """Regression test: green marks followed the plain interval."""
    comparison = pair(
        [0.0, 0.1, 0.2, 0.4, 0.5, 0.1, 0.3, 0.2], [0.1, 0.3, 0.1, 0.6, 0.8, 0.1, 0.5, 0.4], TYPES
    )
    entries = comparison["differences"]
    plain = [name for name, entry in entries.items() if entry["interval"][0] > 0]
    assert set(TYPES) <= set(plain)
    assert all(entries[name]["p_holm"] > 0.05 for name in TYPES)
    assert [direction(entries[name]) for name in TYPES] == [""] * len(TYPES)
    assert direction(entries["official_raw"]) == "better"
    for entry in entries.values():
        if mark := direction(entry):
            assert entry["p_holm"] <= 0.05
            assert (mark == "better") == (entry["difference"] > 0)


def test_primary_p_is_corrected_for_the_number_of_runs():
    pairs = [pair([0.0, 0.1] * 8, [0.05, 0.1 + shift] * 8) for shift in (0.02, 0.03)]
    correct_p_values(pairs)
    assert "Holm-corrected p" in verdict(pairs[0], "A", "B", of_several=True)


def with_facts(a, b, **fields):
    """Return a comparison of runs with these options."""
    results = {"a": {}, "b": fields.pop("results", {})}
    configs = {"a": RunConfig(**a), "b": RunConfig(**b)}
    return {
        **pair([0.1] * 8, [0.2] * 8),
        "options": {name: [a.get(name), b[name]] for name in b if a.get(name) != b[name]},
        "facts": {name: request_facts(configs[name], results[name]) for name in "ab"},
        "status": {"a": "complete", "b": "partial"},
        "notes": {"a": ["same", "only a"], "b": ["same"]},
    }


def test_options_and_requests_that_differ_are_named():
    comparison = with_facts({"model": "x"}, {"model": "y", "temperature": 0.7, "limit": 4})
    assert differences(comparison) == {
        "--model": ("x", "y"),
        "--limit": ("not set", "4"),
        "Temperature": ("0 (greedy)", "0.7"),
    }
    lines = difference_lines(comparison)
    assert lines[0] == "PARTIAL: b"
    assert "--model: a x, b y" in lines
    assert "a, b: same" in lines
    assert "a: only a" in lines


def test_facts_that_do_not_apply_to_a_run_have_no_value():
    """Regression test: scripted runs were said to be not reproducible."""
    comparison = with_facts({"engine": "transformers"}, {"engine": "scripted"})
    found = differences(comparison)
    assert found["Reproducible"][1] == ABSENT
    clients = differences(with_facts({"engine": "transformers"}, {"engine": "mcp"}))
    sampling = ("Temperature", "Seed", "Thinking", "New tokens")
    assert {clients[name][1] for name in sampling} == {ABSENT}


def test_default_models_are_named_where_runs_are_compared(tmp_path):
    """Regression test: compare said that --model was not set, although ls named the policy."""
    questions = make_questions(tmp_path, 2)
    runs = []
    for model in (None, "random", "explorer"):
        run = start_run(make_config(tmp_path, questions, model=model, views="none", max_turns=1))
        finish_run(run)
        runs.append(RunData(run.path))
    default, random, named = sides_of(runs)
    assert differing_options(default, random) == {"model": ["explorer", "random"]}
    assert differing_options(default, named) == {}


def test_adapted_requests_count_as_a_difference():
    adapted = {"adapted": {"temperature": {"how": "not sent", "turns": 54}}}
    comparison = with_facts({}, {}, results=adapted)
    ((name, (ours, theirs)),) = differences(comparison).items()
    assert (name, ours) == ("Temperature", "0 (greedy)")
    assert theirs == "not sent in 54 turns; option: 0 (greedy)"


def test_facts_contain_other_adapted_fields():
    adapted = {"max_tokens": {"how": "sent under its other name", "turns": 3}}
    facts = request_facts(RunConfig(thinking="on", thinking_budget=99), {"adapted": adapted})
    assert facts["Thinking"] == "on, at most 99 tokens"
    assert facts["Adapted to the server"] == "max_tokens sent under its other name in 3 turns"
    assert "new tokens at most 512 per reply" in facts_line(facts)


@pytest.mark.parametrize("number", [1, 2])
def test_tables_have_the_same_cells_in_every_format(number):
    pairs = [pair([0.1, 0.3] * 4, [0.2, 0.9] * 4, TYPES)] * number
    rows = table_cells(pairs, "ABC"[: number + 1])
    assert len({len(row) for row in rows}) == 1
    assert rows[1][0] == "VSI-Bench score"
    assert len(rows) == 1 + len(pairs[0]["differences"].keys() - MEAN_NAMES.keys())
    read = [*csv.reader(io.StringIO(FORMATS["csv"][1](rows)))]
    assert [[cell.replace("−", "-") for cell in row] for row in rows] == read
    markdown = FORMATS["markdown"][1](rows).splitlines()
    assert {line.count("|") for line in markdown} == {len(rows[0]) + 1}
    latex = FORMATS["latex"][1](rows)
    assert len(re.findall(r"(?<!\\)&", latex)) == len(rows) * (len(rows[0]) - 1)
    assert latex.count(r"\\") == len(rows)


def test_special_characters_are_escaped():
    rows = [["a_b & 5 %", "x|y"], ["{~^\\}", "<.001"]]
    assert r"a\_b \& 5 \% & x|y \\" in FORMATS["latex"][1](rows)
    assert r"\{\textasciitilde{}\textasciicircum{}\textbackslash{}\}" in FORMATS["latex"][1](rows)
    assert r"x\|y" in FORMATS["markdown"][1](rows)
