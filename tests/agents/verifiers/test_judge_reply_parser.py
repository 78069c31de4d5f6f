"""Replies of a judge that are written down: what is read, what is not, and how comparisons are counted."""

import json
import math

import pytest
from factories.models import speckled
from hypothesis import given
from hypothesis import strategies as st

from render_agent.agents.verifiers.judge.batch_score import batch_score
from render_agent.agents.verifiers.judge.model_queries import log_odds
from render_agent.agents.verifiers.judge.pairwise import orders, probability, standings
from render_agent.agents.verifiers.judge.reply_parser import Unreadable, read_criteria
from render_agent.agents.verifiers.judge.rubric import Criterion, Rubric
from render_agent.agents.verifiers.judge.score import Fault, Finding, counts
from render_agent.dialogue import chat
from render_agent.engines.base import Reply
from render_agent.engines.scripted import Replies, ScriptedEngine
from render_agent.errors import UsageError

RUBRIC = Rubric(
    "two",
    introduction="Judge.",
    criteria={
        "seen": Criterion("Is it seen?", weight=3),
        "share": Criterion("How much?", "fraction"),
    },
)


def reply(seen=True, share=0.5, **more):
    return json.dumps(
        {"seen": {"reason": "there", "value": seen}, "share": {"value": share}, **more}
    )


READABLE = {
    reply(): 0.875,
    reply(False, 1): 0.25,
    reply(True, 0): 0.75,
    f"```json\n{reply()}\n```": 0.875,
    f"<think>{{}} it is seen</think>\n{reply()}": 0.875,
    reply(other={"value": "whatever"}): 0.875,
}
UNREADABLE = {
    "": "is empty",
    "<think>the chair": "is empty",
    "8 out of 10": "no JSON",
    "[0.5]": "no JSON object",
    "0.5": "no JSON object",
    f"Here it is: {reply()}": "no JSON",
    f"{reply()} {reply()}": "no JSON",
    reply()[:-1]: "no JSON",
    reply(seen="true"): "gives seen as \"true\", not as true or false",
    reply(seen=1): "gives seen as 1, not as true or false",
    reply(seen=None): "gives seen as null",
    reply(share=1.01): "gives share as 1.01, not as a number from 0 to 1",
    reply(share=-0.1): "gives share as -0.1",
    reply(share=True): "gives share as true",
    reply(share=float("nan")): "gives share as NaN",
    reply(share=float("inf")): "gives share as Infinity",
    '{"seen": {"value": true}}': "says nothing of share",
    '{"seen": true, "share": 0.5}': "says nothing of seen",
    '{"seen": {"value": true}, "share": {"value": 0.5}, "seen": {"value": false}}': "stands twice",
    '{"seen": {"value": true, "value": false}, "share": {"value": 0.5}}': "stands twice",
    "[" * 100_000: "no JSON",
    '{"seen": {"value": true}, "share": {"value": 1' + "0" * 5000 + "}}": "no JSON",
}  # fmt: skip


def engine_of(texts):
    return ScriptedEngine(Replies({f"judge/{number}": [text] for number, text in enumerate(texts)}))


def judged(engine, count, mode="json", **more):
    images = [speckled(32, 32, seed) for seed in range(count)]
    return batch_score(
        images, [""] * count, ["?"] * count, engine=engine, mode=mode, rubric=RUBRIC, **more
    )


@pytest.mark.parametrize("batch_size", ["auto", 3])
def test_what_cannot_be_read_is_none_with_its_reason_and_counted(batch_size):
    texts = [*READABLE, *UNREADABLE]
    found = judged(engine_of(texts), len(texts), batch_size=batch_size)
    for score, value in zip(found, READABLE.values(), strict=False):
        assert (score.value, score.fault, score.reason) == (value, None, "")
    for score, reason in zip(found[len(READABLE) :], UNREADABLE.values(), strict=True):
        assert (score.value, score.fault, score.criteria) == (None, Fault.REPLY, {})
        assert reason in score.reason
        assert "\n" not in score.reason
        assert len(score.reason) < 300
    assert counts(found) == {
        "judged": len(READABLE),
        "picture": 0,
        "reply": len(UNREADABLE),
        "engine": 0,
        "alone": 0,
    }
    assert found[0].criteria == {"seen": Finding(1.0, "there"), "share": Finding(0.5, "")}


def test_a_reply_that_was_cut_off_says_so():
    cut = read_criteria(Reply((reply()[:20],), finish="length"), RUBRIC)
    assert cut == Unreadable("the reply was cut off by the token limit")
    assert not isinstance(read_criteria(Reply((reply(),), finish="length"), RUBRIC), Unreadable)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["seen", "share", "value"]), inner)).map(json.dumps))  # fmt: skip
def test_reading_never_raises_and_gives_all_or_nothing(text):
    found = read_criteria(Reply((text,)), RUBRIC)
    if not isinstance(found, Unreadable):
        assert list(found) == ["seen", "share"]
        assert 0 <= RUBRIC.value({name: finding.value for name, finding in found.items()}) <= 1


class Failing:
    """Raises at some questions."""

    def reply(self, request):
        if request.question_id == "judge/1":
            raise OSError("the line is cut")
        return reply()


def test_a_fault_of_the_engine_is_no_score():
    found = judged(ScriptedEngine(Failing()), 3)
    assert [score.value for score in found] == [0.875, None, 0.875]
    assert found[1].fault is Fault.ENGINE
    assert "the line is cut" in found[1].reason


def test_an_engine_without_probabilities_is_told_what_to_use_instead():
    with pytest.raises(UsageError, match="--mode json or pairwise"):
        judged(ScriptedEngine(Failing()), 2, "yes")


class Prefers:
    """Names the picture of the higher worth as better; of equal ones, and where it is lazy, A."""

    def __init__(self, *worth, lazy=False, silent=()):
        self.worth, self.lazy, self.silent = worth, lazy, silent
        self.asked = []

    def reply(self, request):
        pair = [int(name.removeprefix("judge/")[:-4]) for name in chat.pictures(request.messages)]
        self.asked.append(tuple(pair))
        if tuple(pair) in self.silent:
            return "I cannot say."
        first, second = (self.worth[number] for number in pair)
        better = "A" if self.lazy or first >= second else "B"
        return json.dumps({"reason": "", "better": better})


def compared(policy):
    return judged(ScriptedEngine(policy), len(policy.worth), "pairwise")


def test_the_win_share_orders_pictures_by_worth():
    policy = Prefers(3, 9, 1, 5)
    found = compared(policy)
    assert [score.value for score in found] == pytest.approx([1 / 3, 1, 0, 2 / 3])
    assert [score.support for score in found] == [1] * 4
    assert sorted(policy.asked) == orders(4), "every two, in both orders"
    assert sum(score.tokens.reply for score in found) == sum(
        len(json.dumps({"reason": "", "better": "A"}).split()) for _ in policy.asked
    )


def test_a_judge_that_always_names_the_first_finds_all_equal():
    found = compared(Prefers(3, 9, 1, lazy=True))
    assert [(score.value, score.support) for score in found] == [(0.5, 0)] * 3


def test_a_pair_of_which_one_order_cannot_be_read_is_left_out_for_both():
    found = compared(Prefers(3, 9, 1, silent={(0, 1)}))
    assert [score.value for score in found] == [1, 1, 0]
    found = compared(Prefers(3, 9, silent={(0, 1)}))
    assert [(score.value, score.fault) for score in found] == [(None, Fault.REPLY)] * 2
    assert "no JSON" in found[0].reason


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=6), st.floats(-10, 10))
def test_a_liking_for_a_place_cancels_exactly(worths, liking):
    def shares(bias):
        outcomes = {(i, j): worths[i] - worths[j] + bias for i, j in orders(len(worths))}
        return [standing.share for standing in standings(len(worths), outcomes)]

    assert shares(liking) == pytest.approx(shares(0), abs=1e-9)
    by_hand = [
        sum(1 / (1 + math.exp(b - a)) for k, b in enumerate(worths) if k != n) / (len(worths) - 1)
        for n, a in enumerate(worths)
    ]
    assert shares(0) == pytest.approx(by_hand, abs=1e-9)
    assert sum(shares(liking)) == pytest.approx(len(worths) / 2)


@given(st.lists(st.floats(-800, 0), min_size=4, max_size=4))
def test_log_odds_of_any_log_probabilities(logs):
    odds, mass = log_odds(logs, 2)
    assert 0 <= probability(odds) <= 1
    assert 0 <= mass <= 1
    if min(logs) > -300:
        yes, no = (sum(map(math.exp, part)) for part in (logs[:2], logs[2:]))
        assert probability(odds) == pytest.approx(yes / (yes + no), rel=1e-9)


def test_words_without_any_probability_say_nothing():
    assert log_odds([-math.inf] * 4, 2) is None
    assert log_odds([math.nan] + [-1.0] * 3, 2) is None
    odds, _ = log_odds([-math.inf, -math.inf, -1.0, -2.0], 2)
    assert probability(odds) == 0
    odds, _ = log_odds([-1.0, -math.inf, -math.inf, -math.inf], 2)
    assert probability(odds) == 1
