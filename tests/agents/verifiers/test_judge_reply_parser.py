"""Parsing a judge's replies."""

import json
import math

import pytest
from factories.models import random_image
from hypothesis import given
from hypothesis import strategies as st

from render_agent.agents.verifiers.judge.batch_score import (
    CriterionScore,
    batch_score,
    read_criteria,
    yes_score,
)
from render_agent.agents.verifiers.judge.rubric import Criterion, Rubric
from render_agent.engines.engine import Reply
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import UsageError

RUBRIC = Rubric(
    "two",
    introduction="Judge.",
    criteria={"seen": Criterion("Is it seen?"), "share": Criterion("How much?", "fraction")},
)


def reply(seen=True, share=0.5, **more):
    return json.dumps(
        {"seen": {"reason": "there", "value": seen}, "share": {"value": share}, **more}
    )


READABLE = {
    reply(): 0.75,
    reply(False, 1): 0.5,
    reply(True, 0): 0.5,
    f"```json\n{reply()}\n```": 0.75,
    f"<think>{{}} it is seen</think>\n{reply()}": 0.75,
    reply(other={"value": "whatever"}): 0.75,
}
UNREADABLE = {
    "": "is empty",
    "<think>the chair": "is empty",
    "8 out of 10": "not JSON",
    "0.5": "not a JSON object",
    f"Here it is: {reply()}": "not JSON",
    f"{reply()} {reply()}": "not JSON",
    reply()[:-1]: "not JSON",
    reply(seen="true"): "seen",
    reply(seen=None): "seen",
    reply(share=1.01): "share",
    reply(share=True): "share",
    reply(share=float("nan")): "share",
    '{"seen": {"value": true}}': "share",
    '{"seen": true, "share": 0.5}': "seen",
    '{"seen": {"value": true}, "share": {"value": 1' + "0" * 5000 + "}}": "not JSON",
}  # fmt: skip


def engine_of(texts):
    return ScriptedEngine(
        ReplayPolicy({f"judge/{number}": [text] for number, text in enumerate(texts)})
    )


def judge(engine, count, mode="json", **more):
    return batch_score(
        [str(number) for number in range(count)],
        [""] * count,
        ["?"] * count,
        engine=engine,
        mode=mode,
        rubric=RUBRIC,
        load_image=lambda name: random_image(32, 32, int(name)),
        **more,
    )


@pytest.mark.parametrize("batch_size", ["auto", 3])
def test_unreadable_replies_have_a_reason_and_no_score(batch_size):
    texts = [*READABLE, *UNREADABLE]
    results = judge(engine_of(texts), len(texts), batch_size=batch_size)
    for score, value in zip(results, READABLE.values(), strict=False):
        assert (score.value, score.reason) == (value, "")
    for score, reason in zip(results[len(READABLE) :], UNREADABLE.values(), strict=True):
        assert (score.value, score.criteria) == (None, {})
        assert reason in score.reason
        assert "\n" not in score.reason
        assert len(score.reason) < 300
    assert results[0].criteria == {
        "seen": CriterionScore(1.0, "there"),
        "share": CriterionScore(0.5, ""),
    }


def test_cut_off_reply_mentions_the_token_limit():
    with pytest.raises(ValueError, match="token limit"):
        read_criteria(Reply((reply()[:20],), finish="length"), RUBRIC)
    assert read_criteria(Reply((reply(),), finish="length"), RUBRIC)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["seen", "share", "value"]), inner)).map(json.dumps))  # fmt: skip
def test_read_criteria_returns_all_criteria_or_raises(text):
    try:
        results = read_criteria(Reply((text,)), RUBRIC)
    except ValueError:
        return
    assert list(results) == ["seen", "share"]
    assert all(0 <= finding.value <= 1 for finding in results.values())


class Failing:
    """Raises for one request."""

    def reply(self, request):
        if request.dialogue_id == "judge/1":
            raise OSError("the line is cut")
        return reply()


def test_engine_failure_gives_no_score():
    results = judge(ScriptedEngine(Failing()), 3)
    assert [score.value for score in results] == [0.75, None, 0.75]
    assert "the line is cut" in results[1].reason


def test_engine_without_probabilities_error_names_the_alternative():
    with pytest.raises(UsageError, match="mode json"):
        judge(ScriptedEngine(Failing()), 2, "yes")


@given(st.lists(st.floats(-800, 0), min_size=8, max_size=8))
def test_yes_score_for_any_log_probabilities(logs):
    score = yes_score(logs)
    assert 0 <= score.value <= 1
    assert 0 <= score.support <= 1
    if min(logs) > -300:
        yes, no = (sum(map(math.exp, part)) for part in (logs[:4], logs[4:]))
        assert score.value == pytest.approx(yes / (yes + no), rel=1e-9)


def test_zero_probability_of_all_words_gives_no_score():
    assert yes_score([-math.inf] * 8).value is None
    assert yes_score([math.nan] + [-1.0] * 7).value is None
    assert yes_score([-math.inf] * 4 + [-1.0] * 4).value == 0
    assert yes_score([-1.0] * 4 + [-math.inf] * 4).value == 1
