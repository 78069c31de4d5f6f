import json

import numpy as np
import pytest
from click.testing import CliRunner
from factories.runs import make_questions, play, spread_over_rooms, walking_engine

from render_agent.cli.commands.compare import compare_command
from render_agent.errors import UsageError
from render_agent.score.intervals import estimates
from render_agent.score.means import MACRO
from render_agent.score.power import (
    detectable_difference,
    deviation_interval,
    plan,
    power_of,
    scenes_needed,
)
from render_agent.score.summary import OFFICIAL_RAW


@pytest.mark.parametrize(("effect", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15), (5.0, 6)])
def test_sample_sizes_match_published_tables(effect, pairs):
    """Cohen's effect sizes of the paired t test at 5 % and 80 % power, from published tables."""
    assert scenes_needed(effect, 1.0) == pairs
    assert power_of(effect, 1.0, pairs) >= 0.8
    if pairs > 6:
        assert power_of(effect, 1.0, pairs - 1) < 0.8
        assert detectable_difference(1.0, pairs) == pytest.approx(effect, rel=0.03)


def test_scenes_needed_reach_80_percent_power():
    random = np.random.default_rng(0)
    needed = scenes_needed(6.0, 20.0)
    apart = random.normal(0.06, 0.2, (4000, needed, 1))
    p = estimates(("object_counting",), apart, np.ones_like(apart))[MACRO].p
    assert (p <= 0.05).mean() == pytest.approx(0.8, abs=0.02)


def test_tiny_differences_have_no_sample_size():
    assert scenes_needed(1e-6, 50.0) is None


def test_correlated_runs_need_fewer_scenes():
    results = {
        "n": 900, "errors": {"official_raw": {"error": 2.0, "freedom": 49, "scenes": 50, "kurtosis": 3.0}},
        "official_raw": 40.0, "official_over_scored": {"score": 40.0},
    }  # fmt: skip
    result = plan(results, 3.0, 0.8)
    scenes = [row["scenes"] for row in result["needs"]]
    assert scenes == sorted(scenes, reverse=True)
    assert result["needs"][2]["correlation"] == 0.5
    assert (
        result["needs"][2]["deviation"]
        == pytest.approx(result["deviation"])
        == pytest.approx(200**0.5)
    )
    assert result["needs"][2]["questions"] == 18 * scenes[2]
    entry = {"error": 1.0, "scenes": 25, "kurtosis": 3.0}
    measured_plan = plan(results, 3.0, 0.8, {"differences": {"official_raw": entry}})
    assert [(row["correlation"], row["deviation"]) for row in measured_plan["needs"]] == [
        (None, 5.0)
    ]
    results["errors"]["official_raw"]["scenes"] = 15
    with pytest.raises(UsageError, match="from 15 scenes"):
        plan(results, 3.0, 0.8)
    with pytest.raises(UsageError, match="from 12 scenes"):
        plan(results, 3.0, 0.8, {"differences": {"official_raw": {**entry, "scenes": 12}}})


def test_no_plan_without_standard_errors():
    """A method of intervals may have none."""
    with pytest.raises(UsageError, match="standard error"):
        plan({"errors": {OFFICIAL_RAW: {"scenes": 20}}}, 5.0, 0.8)


def test_power_command_prints_the_plan(tmp_path):
    questions = spread_over_rooms(make_questions(tmp_path, 36), 18)
    path = play(tmp_path, questions, walking_engine(36, 3), max_turns=3, no_restate=True)[0]
    as_json = CliRunner().invoke(compare_command, [str(path), "--power", "3", "--json"])
    assert as_json.exit_code == 0, as_json.output
    result = json.loads(as_json.output)
    assert (result["scenes"], result["questions"]) == (18, 36)
    for row in result["needs"]:
        low, high = row["scenes_interval"]
        assert low <= row["scenes"] <= high
        low, high = row["seen_interval"]
        assert low <= row["seen"] <= high
    self_comparison = CliRunner().invoke(compare_command, [str(path), str(path), "--power", "3"])
    assert isinstance(self_comparison.exception, UsageError)


# Contributions of scenes, of a shape: bounded scores, skewed and heavy-tailed ones, and mostly equal differences.
POPULATIONS = {
    "normal": lambda random, shape: random.normal(0.5, 0.1, shape),
    "shares of ten": lambda random, shape: random.binomial(10, 0.6, shape) / 10,
    "nearly all right": lambda random, shape: random.binomial(10, 0.95, shape) / 10,
    "exponential": lambda random, shape: random.exponential(size=shape),
    "one in ten fails": lambda random, shape: (
        (random.random(shape) >= 0.1) * random.binomial(10, 0.8, shape) / 10
    ),
    "mostly equal": lambda random, shape: (random.random(shape) >= 0.7) * random.normal(size=shape),
}


@pytest.mark.parametrize("scenes", [16, 64])
@pytest.mark.parametrize("population", POPULATIONS)
def test_interval_of_the_sample_size_covers(population, scenes):
    """The 95 % interval contains the sample size of the true variance between scenes in 92 % of pilots or more."""
    random, draw = np.random.default_rng(scenes), POPULATIONS[population]
    types = ("object_counting", "object_rel_distance")
    true = draw(random, (200_000, 2)).mean(axis=1).std()
    pilots = draw(random, (1500, scenes, 2))
    estimate = estimates(types, pilots, np.ones_like(pilots))[MACRO]
    covered = []
    for error, kurtosis in zip(estimate.spread.error, estimate.spread.kurtosis, strict=True):
        low, high = deviation_interval(error * scenes**0.5, kurtosis, scenes)
        covered.append(low <= true <= high)
        assert low < error * scenes**0.5 < high
    assert np.mean(covered) >= 0.92


def test_sample_size_grows_with_the_deviation():
    """So the interval of the deviation becomes one of the sample size."""
    numbers = [scenes_needed(5.0, deviation) for deviation in (5.0, 10.0, 20.0, 40.0)]
    assert numbers == sorted(numbers)
