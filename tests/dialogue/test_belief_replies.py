"""Parsing replies to probes: never raises, enforces limits, and notes what was dropped."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from render_agent.dialogue.beliefs import MAX_NOTES, MAX_OBJECTS, Belief, read_belief
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.wording import general
from render_agent.engines.transformers.constrained_decoding import build_grammar
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.parts.beliefs.ask_beliefs import BeliefProbe, probe_keys
from render_agent.runs.build import build
from render_agent.util.safe_parse import convert, to_plain

KEYS = probe_keys(("map", "counts", "pose", "seen"), free=True)

REPLY = {
    "objects": [{"category": "Office-Chair", "position": [1, -2.5], "sure": 80, "length_meters": 0.9}],
    "counts": [{"category": "office chair", "count": 1}],
    "position": [0.5, 1],
    "yaw_degrees": -90,
    "unseen": ["lamp"],
    "floor_square_meters": 14.5,
}  # fmt: skip


def test_complete_reply_is_parsed():
    schema = BeliefProbe(KEYS, general(), 0).schema
    jsonschema.validate(REPLY, dict(schema))
    assert not LLMatcher.validate_grammar(build_grammar(schema))  # usable for guided decoding
    belief = read_belief(json.dumps(REPLY), KEYS.keys())
    (chair,) = belief.objects
    assert (chair.category, chair.position, chair.sure, chair.length) == ("office chair", (1, -2.5), 80, 0.9)  # fmt: skip
    assert (belief.position, belief.yaw, belief.unseen, belief.area) == ((0.5, 1), -90, ("lamp",), 14.5)  # fmt: skip
    assert (belief.count("office chair"), belief.notes) == (1, ())
    assert convert(to_plain(belief), Belief) == belief


@pytest.mark.parametrize(
    ("reply", "places"),
    [
        ('Sure!\n```json\n{"objects": [{"category": "bed", "position": {"x": "1 m", "y": 2}}]}\n``` there', [(1, 2)]),
        ('{"objects": {"bed": [[1, 2], [3, 4]]}}', [(1, 2), (3, 4)]),
        ('{"OBJECTS": [{"category": "beds", "x": 1, "y": 2, "position": null}]}', []),
        ('{"objects": [{"category": "bed", "position": [1, 2]}, {"category": "bed", "posi', [(1, 2)]),
        ('[{"category": "bed", "position": [1, 2, 0.4]}]', [(1, 2)]),
        ('<think>{"objects": [{"category": "bed", "position": [9, 9]}]}</think>{"objects": []}', []),
        ('{"objects": [{"category": "bed", "position": [1, 2]}]} no: {"objects": [{"category": "bed", "position": [3, 4]}]}', [(3, 4)]),
    ],
)  # fmt: skip
def test_spellings_of_a_map(reply, places):
    belief = read_belief(reply, {"objects"})
    beds = belief.of("bed") if isinstance(belief, Belief) else []
    assert [bed.position for bed in beds] == places


@pytest.mark.parametrize(
    "reply",
    ["", "no idea", '{"objects": 5}', '{"answer": "A"}', "{" * 50_000, '{"objects":' * 20_000, '{"objects": [{"position": [1, 2]}]}'],
)  # fmt: skip
def test_invalid_map_is_malformed(reply):
    assert read_belief(reply, {"objects"}).reason


def test_contradictions_and_limits_are_noted():
    many = [{"category": "chair", "position": [n, 1e9 if n % 2 else 0]} for n in range(500)]
    reply = {
        "objects": many,
        "counts": {"chair": 3, "table": -1, "sofa": 0.5},
        "floor_square_meters": -3,
    }
    belief = read_belief(json.dumps(reply), {"objects", "counts", "floor_square_meters"})
    assert len(belief.objects) == MAX_OBJECTS / 2
    assert belief.counts == {"chair": 3}
    assert belief.area is None
    text = "; ".join(belief.notes)
    for part in ("200", "100 objects", "'table'", "'sofa'", "floor_square_meters", "3 chair"):
        assert part in text


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*REPLY, "category", "sure", "x"]), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(max_examples=20)
@given(JSON.map(json.dumps) | st.text(max_size=60), st.integers(0, 200))
def test_read_belief_never_raises_and_round_trips(reply, cut):
    for text in (reply, reply[:cut], reply + "}", '{"objects": ' + reply):
        belief = read_belief(text, KEYS.keys())
        if isinstance(belief, Malformed):
            assert belief.reason
        else:
            assert len(belief.notes) <= MAX_NOTES
            assert convert(json.loads(json.dumps(to_plain(belief))), Belief) == belief


def test_probes_without_views_or_moves_are_rejected():
    with pytest.raises(UsageError, match="--views none"):
        build(RunConfig(batch=True, benchmark="rooms", probe=("map",), views="none"))
    with pytest.raises(UsageError, match="--probe pose"):
        build(RunConfig(batch=True, benchmark="rooms", probe=("pose",), views="tour"))
    passive = probe_keys(("map",), free=False)
    assert {"position", "yaw_degrees"}.isdisjoint(passive)
    assert "objects" in passive
