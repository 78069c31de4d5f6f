"""What bench verifiers measures: that its figures are right, and that geometry chooses better than chance."""

import json
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner
from factories.models import small_model
from factories.runs import make_questions, play, walking
from scipy.stats import spearmanr

from benchmarks import choosing
from render_agent.agents.verifiers.base import TurnContext, Verdict
from render_agent.agents.verifiers.geometry import GeometryPlan
from render_agent.agents.verifiers.random import RandomVerifier
from render_agent.cli.main import cli
from render_agent.config.choice import parsed, sha256
from render_agent.dialogue.state import Question, QuestionState
from render_agent.errors import SetupError
from render_agent.observation import Observation
from render_agent.questions.mentions import kind_of
from render_agent.questions.sufficiency import ROOM_SIZE_TYPE
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reader import read_states
from render_agent.score.intervals import estimates_of
from render_agent.score.means import MICRO, tally
from render_agent.score.means import Scored as ScoredAnswer
from render_agent_lab.oracles.question_visibility import QuestionVisibility
from render_agent_lab.oracles.sighted_oracle import shown_facts
from render_agent_lab.verifier_benchmark.agreement import agreement
from render_agent_lab.verifier_benchmark.calibration import by_probability, by_rank
from render_agent_lab.verifier_benchmark.decisions import Decision, moves_until_found
from render_agent_lab.verifier_benchmark.latency import apart, latency
from render_agent_lab.verifier_benchmark.measure import notes_on, opened
from render_agent_lab.verifier_benchmark.resampling import estimate
from render_agent_lab.verifier_benchmark.scoring import Scored, as_logged, oracle, score_anew
from render_agent_lab.verifier_benchmark.sheets import markdown
from render_agent_lab.verifier_benchmark.success import by_chance, difference, expected, success
from render_agent_lab.verifier_benchmark.walks import made_rooms, walk

PICTURE = (64, 48)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The bundled rooms, explored with random choice among four candidates."""
    folder = tmp_path_factory.mktemp("runs")
    more = {"limit": 32, "shuffle": True, "image_size": PICTURE}
    return walk(folder, "rooms", "lookahead:4", "random", **more)


@pytest.fixture(scope="module")
def source(run):
    with opened([run]) as (source,):
        yield source


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """Two questions of one room, a decision each."""
    more = {"limit": 2, "max_turns": 2, "image_size": PICTURE}
    return walk(tmp_path_factory.mktemp("short"), "rooms", "lookahead:2", "random", **more)


def made_decision(scene, gains):
    """A decision of which only the scene and the gains are looked at."""
    question = Question("q", "b", "rooms", scene, "object_counting", "?", "number")
    state = QuestionState(question, None, 9)
    context = TurnContext(state, Observation((), None, None), None)
    return Decision(context, tuple(range(len(gains))), np.array(gains, float))


def made_decisions(count=40, candidates=6, seed=0):
    chance = np.random.default_rng(seed)
    return [
        made_decision(f"room{number % 8}", chance.integers(0, 3, candidates))
        for number in range(count)
    ]


def said(decisions, scores, **more):
    """What a verifier with these scores, a row a decision, said."""
    rows = [np.atleast_2d(np.array(row, float)) for row in scores]
    return Scored("made", tuple(Verdict(row) for row in rows), **more)


def test_success_over_sets_of_candidates_is_that_of_all_sets():
    chance = np.random.default_rng(1)
    for _ in range(50):
        total = int(chance.integers(1, 8))
        worth, scores = chance.random(total), chance.integers(0, 4, total)
        for count in range(1, total + 1):
            sets = [list(some) for some in combinations(range(total), count)]
            best = [[p for p in some if scores[p] == scores[some].max()] for some in sets]
            by_hand = np.mean([worth[places].mean() for places in best])
            assert expected(worth, scores, count) == pytest.approx(by_hand, abs=1e-12)
    with pytest.raises(ValueError, match="3 of 2"):
        expected([1, 0], [1, 2], 3)


def test_an_interval_is_that_of_scores_over_scenes():
    chance = np.random.default_rng(2)
    values, scenes = chance.random(60), [f"s{n}" for n in chance.integers(0, 6, 60)]
    found = estimate(values, scenes)
    rows = [ScoredAnswer("t", "d", s, v) for s, v in zip(scenes, values, strict=True)]
    assert found["mean"] == pytest.approx(values.mean())
    same = estimates_of(tally(rows))[MICRO]
    assert found["interval"] == pytest.approx((same.mean - same.reach, same.mean + same.reach))
    assert estimate(values, ["one"] * 60)["interval"] is None
    assert estimate([np.nan, 1, 3], ["a", "b", "c"])["n"] == 2
    assert estimate([np.nan], ["a"]) is None
    assert estimate(range(1, 7), list("abcdef"), over=range(2, 14, 2))["interval"] == [0.5, 0.5]


def test_the_oracle_is_never_beaten_and_chance_never_grows():
    decisions = made_decisions()
    best, ties = success(decisions, oracle(decisions)), success(decisions, by_chance(decisions))
    assert list(best["by_count"]) == ["1", "2", "4", "6"]
    grown = [entry["mean"] for entry in best["by_count"].values()]
    assert grown == sorted(grown)
    assert best["of_the_best"]["mean"] == best["where_it_matters"]["mean"] == 1
    assert grown[-1] == np.mean([d.found.max() > 0 for d in decisions])
    shares = {round(entry["mean"], 12) for entry in ties["by_count"].values()}
    assert shares == {round(float(np.mean([d.good.mean() for d in decisions])), 12)}
    assert ties["minus_random"]["mean"] == pytest.approx(0, abs=1e-12)
    gap = difference(decisions, oracle(decisions), by_chance(decisions))
    assert gap["mean"] == pytest.approx(best["minus_random"]["mean"])
    assert gap["interval"][0] > 0


def test_what_a_verifier_could_not_tell_is_counted_and_no_score():
    decisions = made_decisions(3, 2)
    scores = [[np.nan, 1.0], [np.nan, np.nan], [0.0, 1.0]]
    found = success(decisions, said(decisions, scores))
    assert found["untold"] == 3
    assert found["minus_random"]["n"] == 2


def test_calibration_is_zero_for_what_happens_as_often_as_was_said():
    decisions = [made_decision(f"s{n % 4}", [1, 0, 0, 0]) for n in range(20)]
    quarter = said(decisions, [[0.25] * 4] * 20, probabilities=True)
    told = by_probability(decisions, quarter)
    assert told["expected_calibration_error"] == 0
    assert told["bins"] == [{"from": 0.2, "to": 0.3, "n": 80, "said": 0.25, "happened": 0.25}]
    certain = said(decisions, [[1.0] * 4] * 20, probabilities=True)
    assert by_probability(decisions, certain)["expected_calibration_error"] == 0.75
    assert by_probability(decisions, said(decisions, [[1.0] * 4] * 20)) is None
    ranks = by_rank(decisions, said(decisions, [[4, 3, 2, 1]] * 20))
    assert [part["mean"] for part in ranks] == [0, 0, 0, 1]
    assert [part["n"] for part in ranks] == [20] * 4


def test_agreement_is_that_of_scipy():
    decisions = made_decisions(30)
    chance = np.random.default_rng(3)
    one, other = chance.integers(0, 5, (2, 30, 6))
    one[:, 0], other[:, 0] = 9, -9  # nowhere do all tie
    (found,) = agreement(decisions, [said(decisions, one), said(decisions, other)])
    by_hand = [spearmanr(a, b).statistic for a, b in zip(one, other, strict=True)]
    assert found["correlation"]["mean"] == pytest.approx(np.mean(by_hand))
    assert found["same_choice"]["mean"] == 0
    (itself,) = agreement(decisions, [said(decisions, one), said(decisions, 2 * one)])
    assert itself["correlation"]["mean"] == pytest.approx(1)
    assert itself["same_choice"]["mean"] == 1


@pytest.mark.slow
def test_what_is_found_is_what_the_witness_was_shown(run):
    """Two readings of one rule, over real views: the policy's own eyes, and what decisions are judged by."""
    eyes = QuestionVisibility.of(run.config, run.questions())
    outcomes = set()
    for state in sorted(read_states(run), key=lambda state: state.question.scene)[::3]:
        question, wanted = state.question, eyes.things(state.question)
        if kind_of(question) == ROOM_SIZE_TYPE:
            assert not wanted
            continue
        shown = shown_facts(eyes, question, state.views).shown
        assert (shown is None) == (not wanted)
        if wanted:
            outcomes.add(shown)
            assert shown == (wanted <= eyes.seen(question, state.views))
            assert shown == (moves_until_found(state, eyes) < state.max_turns)
    eyes.close()
    assert outcomes == {True, False}


@pytest.mark.slow
def test_decisions_are_what_the_run_logged(run, source):
    states = {state.id: state for state in read_states(run)}
    kept = 0
    for decision in source.decisions:
        context, state = decision.context, states[decision.context.state.id]
        turn = state.turns[context.turn]
        assert context.observation.camera == turn.stood
        assert context.views == tuple(state.views[: len(context.views)])
        assert [c.number for c in decision.candidates] == list(turn.evidence.weighed)
        chosen = next(
            place for place, c in enumerate(decision.candidates) if c.number == turn.evidence.chosen
        )
        assert decision.logged[0].scores[0][chosen] == max(decision.logged[0].scores[0])
        kept += decision.found[chosen] > 0
    assert kept
    rescored = score_anew("random", RandomVerifier(run.config.seed), source.decisions)
    (logged,) = as_logged(source.decisions)
    for mine, its in zip(rescored.verdicts, logged.verdicts, strict=True):
        assert np.array_equal(mine.scores, its.scores)
    assert source.left.undrawn == 0
    counted = {decision.context.state.id for decision in source.decisions}
    assert source.left.unknown + len(counted) <= len(source.questions)


@pytest.mark.slow
def test_the_choice_of_geometry_shows_what_is_named_more_often_than_chance(run, source):
    decisions = source.decisions
    assert len(decisions) >= 200
    assert len({decision.scene for decision in decisions}) == 8
    chance = by_chance(decisions)
    scored = {}
    for unnamed in (False, True):
        verifier = GeometryPlan("unnamed" if unnamed else None).build(run.config, source.questions)
        scored[unnamed] = score_anew("geometry", verifier, decisions)
        gap = difference(decisions, scored[unnamed], chance)
        assert gap["interval"][0] > 0, gap
        assert gap["mean"] > 0.1
        by_count = success(decisions, scored[unnamed])["by_count"]
        grown = [by_count[count]["mean"] for count in ("1", "2", "4")]
        assert grown == sorted(grown)
        verifier.close()
    assert difference(decisions, scored[False], scored[True])["interval"][0] > 0
    (logged,) = as_logged(decisions)
    low, high = difference(decisions, logged, chance)["interval"]
    assert low < 0 < high


def test_every_way_of_geometry_gives_the_same_scores(short_run, monkeypatch):
    monkeypatch.setattr("render_agent_lab.verifier_benchmark.latency.ROUNDS", 1)
    with opened([short_run]) as (source,):
        verifier = GeometryPlan().build(short_run.config, source.questions)
        found = latency(verifier, source.decisions)
    assert len(found) == 3
    assert [entry["apart"] for entry in found.values()] == [0, 0, 0]
    verifier.close()
    ones = [np.ones((1, 2))]
    assert apart(ones, [np.array([[1, 1.5]])]) == 0.5
    assert apart(ones, [np.array([[1, np.nan]])]) == np.inf


def test_the_command_measures_a_run_and_writes_a_page(short_run, tmp_path):
    place = tmp_path / "figures"
    words = [
        "bench",
        "verifiers",
        str(short_run.path),
        "--verifier",
        "random",
        "--json",
        "--output",
    ]
    heard = CliRunner().invoke(cli, [*words, str(place)])
    assert heard.exit_code == 0, heard.output
    found = json.loads(heard.stdout)
    assert json.loads((place / "bench.json").read_text()) == found
    assert found["decisions"] == 2
    assert found["scenes"] == 1
    assert set(found["success"]) == {"any, by chance", "random", "random (logged)", "oracle"}
    assert found["agreement"][0]["correlation"]["mean"] == pytest.approx(1)
    page = (place / "bench.md").read_text()
    assert page == markdown(found)
    assert "2 decisions of 2 questions in 1 scene." in page
    assert "| random (logged) than random | +0.0 |" in page


@pytest.mark.slow
def test_the_judge_is_asked_alone_and_together_and_says_the_same(short_run, monkeypatch):
    """Through a small real Qwen3-VL in float32."""
    monkeypatch.setattr("render_agent_lab.verifier_benchmark.latency.ROUNDS", 1)
    options = f"--model {small_model()} --dtype float32 --device cpu --batch-size 8"
    words = [
        *options.split(),
        "bench",
        "verifiers",
        str(short_run.path),
        "--verifier",
        "judge",
        "--json",
    ]
    heard = CliRunner().invoke(cli, words)
    assert heard.exit_code == 0, heard.output
    found = json.loads(heard.stdout)
    assert found["success"]["judge"]["untold"] == 0
    ways = found["latency"]["judge"]
    assert len(ways) == 3
    assert max(entry["apart"] for entry in ways.values()) < 1e-6
    told = found["calibration"]["judge"]["by_probability"]
    assert told["n"] == sum(part["n"] for part in told["bins"]) == 2 * found["decisions"]
    apart = sum(part["n"] * abs(part["said"] - part["happened"]) for part in told["bins"])
    assert told["expected_calibration_error"] == pytest.approx(apart / told["n"])
    pairs = CliRunner().invoke(cli, ["--judge-mode", "pairwise", *words])
    assert pairs.exit_code == 0, pairs.output
    assert len(json.loads(pairs.stdout)["latency"]["judge"]) == 2
    assert json.loads(pairs.stdout)["calibration"]["judge"]["by_probability"] is None


def test_what_cannot_judge_is_refused_before_anything_is_explored(tmp_path):
    words = ["--engine", "scripted", "bench", "verifiers", "--verifier", "judge"]
    heard = CliRunner().invoke(cli, words)
    assert "the scripted engine has none" in str(heard.exception)
    heard = CliRunner().invoke(cli, ["--agent", "vote:3", "bench", "verifiers"])
    assert "--agent goes with a run" in str(heard.exception)


@pytest.mark.slow
def test_the_experiment_pairs_the_same_questions(run):
    rows = choosing.found_in(run)
    assert len(rows) >= 25
    logged = {state.id: state for state in read_states(run)}
    for one, row in rows.items():
        assert row["found"] == (row["moves"] < 9)
        assert row["moves"] <= len(logged[one].turns)
        assert row["renders"] >= row["decisions"] + 1
    assert sum(row["decisions"] for row in rows.values()) >= 200
    sooner = {one: row | {"moves": row["moves"] - 1} for one, row in rows.items()}
    told = choosing.fewer(choosing.over_seeds([sooner, rows]), choosing.over_seeds([rows, rows]))
    assert told["mean"] == 0.5
    assert told["interval"] == [0.5, 0.5]
    assert told["p"] == 2 / 2 ** len({row["scene"] for row in rows.values()})


def test_a_difference_is_as_sure_as_whole_scenes_make_it():
    """By hand: of the 8 ways to exchange sums of 6, 2 and -1, four differ by 7 or more."""
    by_exchange = choosing.by_exchange
    assert by_exchange([3, 3, 2, -1], ["a", "a", "b", "c"]) == 4 / 8
    assert by_exchange([1] * 40, ["one"] * 40) == 1
    assert by_exchange([1, -1], ["a", "b"]) == 1
    many = [str(number) for number in range(30)]
    assert by_exchange([1] * 30, many) == pytest.approx(2**-16)
    assert 0.1 < by_exchange([1] * 18 + [-1] * 12, many) < 0.6


def test_who_is_measured_where_it_was_trained_is_told(short_run, tmp_path):
    (scan,) = {question.scan for question in short_run.questions() if question.scan}
    for name, scans in (("met", [sha256(scan)]), ("other", ["0"])):
        card = dict.fromkeys(("format", "members", "shape", "numbers_of_a_move"), 1)
        card["learned"] = {"learned_from": {"scans": scans}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "verifier.json").write_text(json.dumps(card))
    plans = parsed(
        "verifier", "--verifier", [f"learned:{tmp_path / name}" for name in ("met", "other")]
    )
    with opened([short_run]) as sources:
        (note,) = notes_on(plans, sources)
    assert note == f"{plans[0].label} knows 1 of these 1 scenes, in which it was trained."


def test_a_run_without_decisions_is_refused_in_one_sentence(tmp_path):
    path, _ = play(tmp_path, make_questions(tmp_path), walking(4))
    heard = CliRunner().invoke(cli, ["bench", "verifiers", str(path)])
    assert isinstance(heard.exception, SetupError)
    assert "there is no decision to measure" in str(heard.exception)
    with pytest.raises(ValueError, match="held out"):
        made_rooms(tmp_path, 1, 1)
    assert RunFolder(path).name
