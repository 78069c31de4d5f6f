from operator import attrgetter

import numpy as np
import pytest
from scipy import stats

from render_agent.score import intervals
from render_agent.score.intervals import (
    Estimate,
    StandardError,
    estimates,
    holm,
    make_estimates,
    ratio,
)
from render_agent.score.means import (
    MACRO,
    MEAN_OF_TYPES,
    MICRO,
    AnswerScore,
    named_means,
    tally_scores,
)
from render_agent.score.summary import summary
from render_agent.tasks.question_types import DIRECTION_TYPES, TYPES

KINDS = ("object_counting", *DIRECTION_TYPES[:2], "route_planning")


def estimate(mean, error, freedom=7.0, scenes=8):
    return Estimate(
        np.array(mean), np.array(scenes), StandardError(np.array(error), np.array(freedom))
    )


def population(random, spread, scenes=400, without=0.0):
    """Return scenes that vary in difficulty and in the number of questions per type; the last type is rare."""
    easy = np.clip(random.normal(0.55, spread, (scenes, 1)), 0, 1)
    counts = random.integers(1, 5, (scenes, len(KINDS))).astype(float)
    counts[random.random(scenes) < without, -1] = 0
    return random.binomial(counts.astype(int), easy).astype(float), counts


def test_one_question_per_scene_gives_the_t_test():
    values = np.random.default_rng(0).normal(0.1, 0.3, 9)
    result = ratio(values, range(9))
    expected = stats.ttest_1samp(values, 0)
    assert result.mean == pytest.approx(values.mean())
    assert result.spread.error == pytest.approx(stats.sem(values))
    assert result.spread.freedom == pytest.approx(8)
    assert result.p == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval(0.95)
    assert result.difference_interval == pytest.approx((low, high))


def test_standard_error_is_the_jackknife():
    sums, counts = population(np.random.default_rng(1), 0.3, scenes=7, without=0.5)
    result = estimates(KINDS, sums, counts)

    def macro(mask):
        by_type = sums[mask].sum(axis=0) / counts[mask].sum(axis=0)
        return np.mean([by_type[0], by_type[1:3].mean(), by_type[3]])

    left = [macro(np.arange(7) != scene) for scene in range(7)]
    assert result[MACRO].spread.error == pytest.approx(
        np.sqrt(6 / 7 * np.sum((left - np.mean(left)) ** 2))
    )
    assert result[MACRO].mean == pytest.approx(macro(np.arange(7) >= 0))


def test_degrees_of_freedom_fall_if_few_scenes_dominate():
    even = np.full((20, 2), 3.0)
    result = estimates(("a", "b"), even / 2, even)
    assert {round(float(result[name].spread.freedom), 9) for name in ("a", "b", MACRO, MICRO)} == {
        19
    }
    rare = even.copy()
    rare[3:, 1] = 0
    result = estimates(("a", "b"), rare / 2, rare)
    assert result["b"].scenes == 3
    assert result["b"].spread.freedom == pytest.approx(2)
    assert 2 < result[MACRO].spread.freedom < 5
    assert result[MICRO].spread.freedom > 15


def test_samples_are_estimated_independently():
    random = np.random.default_rng(2)
    populations = [population(random, 0.2, scenes=12, without=0.5) for _ in range(5)]
    together = estimates(KINDS, *map(np.stack, zip(*populations, strict=True)))
    for number, (sums, counts) in enumerate(populations):
        for name, estimate in estimates(KINDS, sums, counts).items():
            for part in ("mean", "spread.error", "spread.freedom", "scenes", "p"):
                get = attrgetter(part)
                pair = get(together[name])[number], get(estimate)
                assert pair[0] == pytest.approx(pair[1], nan_ok=True), (name, part)


@pytest.mark.parametrize(("right", "low", "high"), [(1.0, 0.476, 1), (0.0, 0, 0.524)])
def test_interval_of_perfect_score_has_width(right, low, high):
    """Wilson's interval counts six scenes as six questions, with the t quantile for five degrees of freedom."""
    rows = [
        AnswerScore("route_planning", "d", str(scene), right)
        for scene in range(6)
        for _ in range(9)
    ]
    bounds = summary(rows)["intervals"]["official"]
    assert bounds == pytest.approx([100 * low, 100 * high], abs=0.1)


def test_score_interval_is_bounded_and_matches_t_in_the_middle():
    wide = estimate(0.97, 0.06).score_interval
    assert 0 < wide[0] < 0.97 < wide[1] < 1
    low, high = estimate(0.5, 0.001, freedom=1e9).score_interval
    assert (low, high) == pytest.approx((0.5 - 0.00196, 0.5 + 0.00196), abs=1e-5)


def test_no_interval_with_few_scenes():
    def rows(count):
        return [
            AnswerScore("object_counting", "d", str(scene), scene % 2) for scene in range(count)
        ]

    assert set(summary(rows(5))["intervals"].values()) == {None}
    six = [*rows(6), AnswerScore("route_planning", "d", "0", 1.0)]
    result = summary(six)
    assert result["intervals"]["object_counting"] is not None
    assert result["intervals"]["route_planning"] is None
    assert result["errors"]["route_planning"]["scenes"] == 1
    assert np.isnan(make_estimates(tally_scores(rows(5)))[MICRO].p)
    assert make_estimates(tally_scores([])) == {}
    assert ratio([], []) is None


def test_p_agrees_with_interval():
    random = np.random.default_rng(3)
    mean, error = random.normal(0, 0.2, 400), random.random(400) + 1e-3
    result = estimate(mean, error, np.full(400, 9.0), np.full(400, 10))
    assert np.array_equal(np.abs(mean) > mean - result.difference_interval[0], result.p < 0.05)


def test_p_is_at_least_the_sign_test():
    assert ratio([0.3] * 6, range(6)).p == 2 / 2**6
    assert ratio([0.0] * 6, range(6)).p == 1
    assert ratio([0.3, 0.3001] * 5, range(10)).p == 2 / 2**10


@pytest.mark.parametrize(
    ("ps", "corrected"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, None, 0.9], [1, None, 1]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holms_correction(ps, corrected):
    assert holm(ps) == pytest.approx(corrected)


@pytest.mark.parametrize("scenes", [6, 8, 30])
@pytest.mark.parametrize("spread", [0.05, 0.6])
def test_interval_coverage_is_95_percent(scenes, spread):
    random = np.random.default_rng(7)
    sums, counts = population(random, spread)
    truths = estimates(KINDS, sums, counts)
    scene_indices = random.integers(len(sums), size=(1500, scenes))
    result = estimates(KINDS, sums[scene_indices], counts[scene_indices])
    for name in (MACRO, MICRO, MEAN_OF_TYPES, "object_counting"):
        low, high = result[name].score_interval
        truth = truths[name].mean
        assert 0.935 <= ((low <= truth) & (truth <= high)).mean() <= 0.98, name


def test_interval_coverage_with_a_rare_type():
    random = np.random.default_rng(5)
    sums, counts = population(random, 0.3, without=0.7)
    scene_indices = random.integers(len(sums), size=(3000, 8))
    result = estimates(KINDS, sums[scene_indices], counts[scene_indices])[MACRO]
    truth = estimates(KINDS, sums, counts)[MACRO].mean
    low, high = result.score_interval
    assert 0.935 <= ((low <= truth) & (truth <= high)).mean() <= 0.99


@pytest.mark.parametrize("scenes", [6, 8, 30])
def test_false_positive_rate_is_5_percent(scenes):
    random = np.random.default_rng(8)
    (a, counts), b = population(random, 0.6), population(random, 0.6)[0]
    scene_indices = random.integers(len(a), size=(1500, scenes))
    exchanged = random.choice((-1, 1), (1500, scenes, 1))
    result = estimates(
        KINDS, (np.minimum(b, counts) - a)[scene_indices] * exchanged, counts[scene_indices]
    )
    for name in (MACRO, MICRO):
        assert 0.03 <= (result[name].p <= 0.05).mean() <= 0.065, name


def test_estimates_do_not_depend_on_answer_order():
    random = np.random.default_rng(9)
    rows = [
        AnswerScore(name, "d", str(scene), float(random.random() < 0.3 + 0.4 * (scene % 2)))
        for scene in range(60)
        for name in TYPES
    ]
    result = summary(rows)
    assert result == summary(list(reversed(rows)))
    for name, (low, high) in result["intervals"].items():
        assert low < 100 * tally_scores(rows).means[MACRO if name == "official" else name] < high


class Percentile:
    """The spread of a percentile bootstrap over scenes; it has no standard error."""

    def __init__(self, means):
        self.low, self.high = np.nanpercentile(means, (2.5, 97.5), axis=0)
        self.tail = np.nanmean(np.asarray(means) <= 0, axis=0)

    def difference(self, mean, scenes):
        return self.low, self.high

    score = difference

    def p(self, mean, scenes):
        return 2 * np.minimum(self.tail, 1 - self.tail)

    def to_json(self):
        return {}


class Bootstrap:
    words = "percentile bootstrap over scenes"

    def spreads(self, types, sums, counts, contributions):
        random = np.random.default_rng(0)
        draws = [
            named_means(types, sums[rows].sum(0), counts[rows].sum(0))
            for rows in random.integers(0, len(sums), (200, len(sums)))
        ]
        return {name: Percentile([draw[name] for draw in draws]) for name in draws[0]}

    def spread_of(self, statistic, scenes):
        random = np.random.default_rng(0)
        return Percentile(statistic(random.multinomial(scenes, [1 / scenes] * scenes, 200)))


def test_another_method_needs_one_assignment(monkeypatch, tmp_path, type_in):
    answers = [
        AnswerScore("object_counting", "rooms", f"room{n % 8}", float(n % 3 == 0))
        for n in range(40)
    ]
    before = summary(answers)
    monkeypatch.setattr(intervals, "METHOD", Bootstrap())
    after = summary(answers)
    assert after["official"] == before["official"]
    assert after["intervals"]["official"] != before["intervals"]["official"]
    low, high = after["intervals"]["official"]
    assert low < after["official"] < high
    for model in ("random", "oracle"):
        run = (
            "--batch",
            "--benchmark",
            "rooms",
            "--engine",
            "scripted",
            "--model",
            model,
            "--output",
            model,
        )
        assert type_in(*run, "--views", "none", "--max-turns", "1", folder=tmp_path)[0] == 0
    random, oracle = (next((tmp_path / model).iterdir()) for model in ("random", "oracle"))
    assert type_in("report", random, "--processes", "1", folder=tmp_path)[0] == 0
    compared = type_in("compare", random, oracle, "--page", folder=tmp_path)
    pages = [random / "report" / "index.html", *tmp_path.rglob("compar*/index.html")]
    for text in (compared[1], *(page.read_text("utf-8") for page in pages)):
        assert Bootstrap.words in " ".join(text.split())
        assert "jackknife" not in text


def test_statistics_that_are_not_means_use_the_method(monkeypatch):
    random = np.random.default_rng(1)
    tops, bottoms = random.random(9), np.ones(9)

    def root(weights):
        return np.sqrt((weights @ tops) / (weights @ bottoms))

    by_jackknife = intervals.estimate_statistic(root, 9)
    without_each = np.array([root(np.delete(np.eye(9), n, 0).sum(0)) for n in range(9)])
    error = np.sqrt(8 / 9 * ((without_each - without_each.mean()) ** 2).sum())
    assert float(by_jackknife.spread.error) == pytest.approx(error)
    monkeypatch.setattr(intervals, "METHOD", Bootstrap())
    by_bootstrap = intervals.estimate_statistic(root, 9)
    assert by_bootstrap.mean == by_jackknife.mean
    low, high = by_bootstrap.interval()
    assert low < 100 * by_bootstrap.mean < high
    assert [low, high] != by_jackknife.interval()
