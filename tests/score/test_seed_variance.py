import statistics

import pytest

from render_agent.score.seed_variance import spread


def test_the_spread_is_the_deviation_between_runs():
    scores = [40.0, 44.0, 48.5]
    results = [
        {
            "official": score,
            "micro": None,
            "types": {"object_counting": {"score": 2 * score}},
            "totals": {"per_question": {"turns": score, "renders": 2 * score, "calls": 1.0}},
        }
        for score in scores
    ]
    found = spread(results)
    assert found["official"].mean == pytest.approx(statistics.mean(scores))
    assert found["official"].deviation == pytest.approx(statistics.stdev(scores))
    assert found["object_counting"].deviation == pytest.approx(2 * statistics.stdev(scores))
    assert found["official"].runs == 3
    assert found["pictures drawn a question"] == found["object_counting"]
    assert "micro" not in found


def test_one_run_has_no_deviation():
    assert spread([{"official": 40.0, "types": {}}])["official"].deviation is None
