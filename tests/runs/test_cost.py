"""The cost of a run, and its limit (`--max-cost`)."""

import json
from dataclasses import replace
from importlib.util import find_spec

import pytest
from factories.runs import (
    STEP,
    finish_run,
    make_config,
    make_questions,
    play,
    resume,
    transcripts,
    walking_engine,
)
from factories.servers import StubServer, chat_answers, chat_reply

from render_agent.agents.verifiers.random import RandomVerifier
from render_agent.cli.dry_run import _further_cost, dry_continue, dry_run
from render_agent.dialogue.state import Status
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.prices import Price
from render_agent.errors import RenderAgentError, RunStoppedError, UsageError
from render_agent.report.sentences.facts import cost_fact
from render_agent.runs.build import build
from render_agent.runs.cost.billing import Billing
from render_agent.runs.cost.budget import Budget, OverBudgetError
from render_agent.runs.cost.run_estimate import cost_bound, estimate
from render_agent.runs.cost.turn_cost import TurnCost
from render_agent.runs.phase_controller import NullObserver, PhaseController
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

pytestmark = pytest.mark.timeout(120)  # a run that ignores its limit never ends

QUESTIONS = 6
PRICES = (
    "- {models: [made, explorer, '*mapper_policy.py'], in: 2, cached: 0.5, cache_write: 3, out: 10}"
)
USAGE = {
    "prompt_tokens": 100_000,
    "completion_tokens": 10_000,
    "prompt_tokens_details": {"cached_tokens": 40_000, "cache_write_tokens": 20_000},
}
REPLY_USD = (40_000 * 2 + 40_000 * 0.5 + 20_000 * 3 + 10_000 * 10) / 1e6  # of USAGE
NO_SDK = pytest.mark.skipif(find_spec("openai") is None, reason="openai is not installed")


@pytest.fixture
def prices(tmp_path):
    file = tmp_path / "prices.yaml"
    file.write_text(PRICES)
    return str(file)


@pytest.fixture
def server():
    """A server whose model never answers, with usage unless `reports` is False."""
    server = StubServer(
        chat_answers(lambda body: chat_reply(STEP, usage=USAGE if server.reports else None))
    )
    server.reports = True
    yield server
    server.close()


def start(tmp_path, url, **options):
    """Start a run over the server; return its folder and the error that stopped it, if any."""
    questions = make_questions(tmp_path, QUESTIONS)
    defaults = {"engine": "openai", "model": "made", "base_url": (url,), "batch_size": 1}
    defaults |= {"no_restate": True, "max_turns": 3}
    run = start_run(make_config(tmp_path, questions, **defaults | options))
    try:
        finish_run(run)
    except RunStoppedError as error:
        return run.path, str(error)
    return run.path, None


class UnfinishedState:
    """An unfinished question, which may be looked at a limited number of times, so that a loop over it ends."""

    id, turns, num_looks = "0", (), 0

    @property
    def active(self):
        self.num_looks += 1
        assert self.num_looks < 100, "the question is tried again and again"
        return True


@pytest.mark.parametrize("max_batched_turns", [0, 4])
def test_question_takes_no_turn_once_the_limit_is_reached(max_batched_turns):
    budget = Budget()
    budget.exhausted = True
    controller = PhaseController(None, NullObserver(), None, max_batched_turns, 1, budget)
    assert [*controller.take_all(UnfinishedState())] == []
    assert [*controller.turn(UnfinishedState(), "batched")] == []
    assert controller._pending([UnfinishedState()]) == []


@NO_SDK
def test_cost_counts_every_kind_of_token(tmp_path, server, prices):
    path, _ = start(tmp_path, server.url, prices=prices)
    results = RunData(path).saved_results
    turns = results["totals"]["turns"]
    assert turns == 3 * QUESTIONS
    assert results["cost_usd"] == pytest.approx(turns * REPLY_USD)
    assert [row["cost_usd"] for row in results["questions"]] == pytest.approx(
        [3 * REPLY_USD] * QUESTIONS
    )
    assert results["totals"]["per_question"]["cost_usd"] == pytest.approx(3 * REPLY_USD)
    assert RunData(path).record["price"]["cache_write"] == 3
    assert "cost_usd" in (path / "results.csv").read_text().splitlines()[0]


@NO_SDK
def test_request_to_restate_an_answer_is_paid_for(tmp_path, server, prices):
    path, _ = start(tmp_path, server.url, prices=prices, no_restate=False, max_turns=1)
    results = RunData(path).saved_results
    assert results["totals"]["turns"] == QUESTIONS
    assert results["totals"]["calls"] == 2 * QUESTIONS
    assert results["cost_usd"] == pytest.approx(2 * QUESTIONS * REPLY_USD)


@NO_SDK
@pytest.mark.parametrize("batched", [0, 4])
def test_run_stops_at_its_limit_and_resumes_identically(tmp_path, server, prices, batched):
    uninterrupted, _ = start(tmp_path, server.url, prices=prices, max_batched_turns=batched)
    limit = 7.5 * REPLY_USD
    path, message = start(
        tmp_path, server.url, prices=prices, max_cost=limit, max_batched_turns=batched
    )
    assert message is not None
    assert "--max-cost" in message
    assert "--continue" in message
    folder = RunData(path)
    assert not folder.finished
    assert len(folder.turns) == 7  # one more would exceed the limit
    assert not any(line.error for line in folder.turns)
    with pytest.raises(RunStoppedError):
        resume(path)  # the saved limit still applies
    assert len(RunData(path).turns) == 7
    with pytest.raises(RunStoppedError):
        resume(path, max_cost=10 * REPLY_USD)
    assert len(RunData(path).turns) == 10
    results = resume(path, max_cost=100.0)
    assert transcripts(path) == transcripts(uninterrupted)
    assert results["cost_usd"] == pytest.approx(3 * QUESTIONS * REPLY_USD)


@NO_SDK
@pytest.mark.parametrize("batch_size", [2, 4])
def test_limit_is_exceeded_by_at_most_the_turns_in_flight(tmp_path, server, prices, batch_size):
    limit = 0.5 * REPLY_USD
    path, message = start(
        tmp_path, server.url, prices=prices, max_cost=limit, batch_size=batch_size
    )
    assert message is not None
    assert 1 <= len(RunData(path).turns) <= 2 * batch_size


@NO_SDK
def test_complete_run_is_not_stopped(tmp_path, server, prices):
    _, message = start(
        tmp_path, server.url, prices=prices, max_cost=3 * QUESTIONS * REPLY_USD + 0.01
    )
    assert message is None


@NO_SDK
def test_limit_without_reported_tokens_stops_the_run(tmp_path, server, prices):
    server.reports = False
    path, message = start(tmp_path, server.url, prices=prices, max_cost=5.0)
    assert "reports no tokens" in message
    assert len(RunData(path).turns) <= 2
    assert RunData(path).results["cost_usd"] is None


@NO_SDK
def test_unknown_price_is_reported(tmp_path, server):
    path, _ = start(tmp_path, server.url)
    folder = RunData(path)
    assert folder.record["price"] is None
    assert folder.saved_results["cost_usd"] is None
    assert "made" in cost_fact(folder.parts, folder.results)["Cost"]
    assert not any("cost_usd" in row for row in folder.saved_results["questions"])
    with pytest.raises(UsageError, match=r"made.*--prices"):
        start(tmp_path, server.url, max_cost=1.0)


@NO_SDK
def test_price_can_be_set_when_resuming(tmp_path, server, prices):
    path, _ = start(tmp_path, server.url)
    (path / "results.json").unlink()
    with pytest.raises(UsageError, match="--prices"):
        resume_run(RunData(path), {"max_cost": 1.0})
    assert resume(path, prices=prices)["cost_usd"] == pytest.approx(3 * QUESTIONS * REPLY_USD)
    assert RunData(path).price.reply == 10


def test_older_run_has_no_cost_until_it_is_resumed(tmp_path, prices):
    questions = make_questions(tmp_path)
    path, results = play(tmp_path, questions, walking_engine(4), max_turns=2)
    record = json.loads((path / "config.json").read_text())
    del record["price"], record["config"]["prices"], record["config"]["max_cost"]
    (path / "config.json").write_text(json.dumps(record))
    folder = RunData(path)
    assert folder.price is None
    assert folder.results["cost_usd"] is None
    assert folder.results["questions"] == results["questions"]


def test_limit_needs_one_process(tmp_path, prices):
    config = make_config(tmp_path, make_questions(tmp_path), max_cost=1.0, workers=2)
    with pytest.raises(UsageError, match="--workers"):
        build(config)


PRICE = Price(("made",), 2, 10)
TURN_USD = PRICE.cost(Tokens(1000, 100))


class FailedTurnCost(TurnCost):
    """Tokens of a turn that failed after its replies."""

    def __init__(self, tokens):
        super().__init__()
        self.counted = tokens

    @property
    def tokens(self):
        return self.counted


@pytest.mark.parametrize("in_flight", [1, 3, 8])
@pytest.mark.parametrize("turns", [0.0, 0.5, 1.0, 5.5, 20.0])
def test_budget_never_plans_to_exceed_its_limit(in_flight, turns):
    budget = Budget(Billing(PRICE), turns * TURN_USD * (1 + 1e-9))
    active: list[str] = []
    spent = 0
    for number in range(100):
        try:
            while len(active) < in_flight:
                budget.admit(name := f"{number} {len(active)}")
                active.append(name)
        except OverBudgetError:
            assert budget.exhausted
        if not active:
            break
        budget.settle(active.pop(0), None, FailedTurnCost(Tokens(1000, 100)))
        spent += 1
    assert spent <= max(turns, in_flight if turns else 0)
    assert spent >= int(turns)
    assert budget.spent == pytest.approx(spent * TURN_USD)
    with pytest.raises(OverBudgetError):
        budget.admit("another")


def test_budget_without_limit_admits_everything():
    budget = Budget()
    for number in range(5):
        budget.admit(str(number))
        budget.settle(str(number), None, FailedTurnCost(Tokens()))
    assert not budget.exhausted


@pytest.mark.parametrize("options", [{}, {"agent": "vote:3", "temperature": 1.0}])
@pytest.mark.parametrize("probe", [(), ("map",)])
def test_bound_is_above_the_cost_of_a_run(tmp_path, prices, options, probe):
    questions = make_questions(tmp_path)
    config = make_config(tmp_path, questions, prices=prices, max_turns=3, probe=probe, **options)
    run = start_run(config)
    results = finish_run(run)
    path = run.path
    opening = RunData(path).turns[0].messages
    parts = replace(build(config), price=RunData(path).price)
    bound = cost_bound(parts, estimated := estimate(parts, 4, opening))
    assert 0 < results["cost_usd"] <= bound
    assert estimated.requests == 4 * 3 * (2 if probe else 1) + 4
    assert bound == pytest.approx((estimated.prompt_tokens * 3 + estimated.reply_tokens * 10) / 1e6)


def test_tokens_of_failed_turns_are_paid_for(tmp_path, prices, monkeypatch):
    def fail(*_):
        raise RenderAgentError("no choice")

    monkeypatch.setattr(RandomVerifier, "score", fail)
    options = {"agent": "best:2", "verifier": ("random",), "temperature": 1.0}
    config = make_config(
        tmp_path, make_questions(tmp_path), prices=prices, max_failures="100%", **options
    )
    run = start_run(config)
    results = finish_run(run)
    folder = RunData(run.path)
    failures = [line for line in folder.turns if line.error]
    assert len(failures) == results["counts"]["failed"] == 4
    assert all(failure.tokens.prompt > 0 for failure in failures)
    paid = sum(folder.price.cost(failure.tokens) for failure in failures)
    assert results["cost_usd"] == pytest.approx(paid, abs=1e-5)


@NO_SDK
def test_dry_run_shows_the_bound_and_the_projection(tmp_path, server, prices, capsys):
    questions = make_questions(tmp_path, QUESTIONS)
    options = {"engine": "openai", "model": "made", "base_url": (server.url,)}
    config = make_config(tmp_path, questions, prices=prices, json=True, **options)
    dry_run(config)
    output = json.loads(capsys.readouterr().out)
    counts = output["estimate"]
    assert output["price"]["out"] == 10
    assert output["cost_usd_at_most"] == pytest.approx(
        (counts["prompt_tokens"] * 3 + counts["reply_tokens"] * 10) / 1e6
    )
    dry_run(replace(config, batch_jobs=True, max_batched_turns=config.max_turns))
    said = json.loads(capsys.readouterr().out)
    whole = said["cost_usd_at_most"]
    assert said["cost_usd_at_most_with_batch_api"] == pytest.approx(whole / 2)
    dry_run(replace(config, batch_jobs=True, max_batched_turns=0))
    said = json.loads(capsys.readouterr().out)
    assert said["cost_usd_at_most_with_batch_api"] == whole
    dry_run(replace(config, json=False))
    assert "cost at most $" in capsys.readouterr().out
    dry_run(replace(config, json=False, prices=None))
    assert "no price for made" in capsys.readouterr().out

    path, _ = start(
        tmp_path, server.url, prices=prices, max_cost=7.5 * REPLY_USD, max_batched_turns=0
    )
    dry_continue(path.parent, path.name, {"json": True})
    output = json.loads(capsys.readouterr().out)
    assert output["cost_usd"] == pytest.approx(7 * REPLY_USD)
    assert output["further_cost_usd"] == pytest.approx((2 + 3 * 3) * REPLY_USD)


def test_projection_changes_no_state(tmp_path):
    path, _ = play(tmp_path, make_questions(tmp_path), walking_engine(4), max_turns=4)
    states = RunData(path).states
    cost = _further_cost(states, 1.0)
    states[0].turns.pop()
    states[0].fail("gone")
    assert cost == 0 < _further_cost(states, 1.0)
    assert (states[0].status, states[0].error) == (Status.FAILED, "gone")


@pytest.mark.parametrize(("judge", "is_counted"), [("judge", True), ("judge:other", False)])
def test_cost_without_judges_is_reported(tmp_path, judge, is_counted):
    options = {"agent": "lookahead:2", "verifier": (judge,), "temperature": 1.0, "engine": "openai"}
    parts = build(make_config(tmp_path, make_questions(tmp_path), model="made", **options))
    fact = cost_fact(replace(parts, price=PRICE), {"cost_usd": 2.0})["Cost"]
    assert fact.startswith("$2.00")
    assert ("without judges" in fact) != is_counted
