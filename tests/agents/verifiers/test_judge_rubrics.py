"""Rubrics: those that are shipped, and what is wrong with others in a sentence each."""

import json
import re
from importlib.resources import files

import jsonschema
import pytest
import yaml
from factories import TREE
from hypothesis import given
from hypothesis import strategies as st

from render_agent.agents.verifiers.judge.prompts import criteria_form, criteria_schema
from render_agent.agents.verifiers.judge.reply_parser import Unreadable, read_criteria
from render_agent.agents.verifiers.judge.rubric import (
    Rubric,
    bundled_rubrics,
    load_rubric,
    read_rubric,
)
from render_agent.engines.base import Reply
from render_agent.errors import SetupError

WHOLE = {
    "name": "mine",
    "helps": "Does it help with {question}?",
    "introduction": "Judge.",
    "criteria": {"seen": {"text": "Is {named} seen?", "kind": "boolean", "weight": 2}},
}


def test_the_shipped_rubrics_ask_in_every_mode():
    assert "view" in bundled_rubrics()
    for name in bundled_rubrics():
        rubric = load_rubric(name)
        assert rubric.name == name
        for mode in ("yes", "json", "pairwise"):
            system, user = rubric.prompts(mode, "How many chairs are there?")
            assert "How many chairs are there?" in user
            assert "{" not in system + user
            assert rubric.asks_about_a_question(mode)


def test_the_view_rubric_has_the_criteria_of_a_good_view():
    rubric = load_rubric("view")
    assert list(rubric.criteria) == ["visible", "unoccluded", "scale", "new"]
    form = criteria_form(rubric)
    assert all(f"- {name}: " in form for name in rubric.criteria)


def test_the_rubric_that_the_page_shows_is_one():
    page = (TREE / "docs" / "how-to" / "judge.md").read_text("utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (shown,) = [block for block in blocks if "criteria:" in block]
    assert list(read_rubric(shown.encode()).criteria) == ["visible", "share"]


def test_a_reply_that_keeps_the_schema_can_be_read():
    rubric = load_rubric("view")
    schema = criteria_schema(rubric)
    jsonschema.Draft202012Validator.check_schema(schema)
    best = {
        name: {"reason": "so", "value": True if entry.kind == "boolean" else 1.0}
        for name, entry in rubric.criteria.items()
    }
    jsonschema.validate(best, schema)
    found = read_criteria(Reply((json.dumps(best),)), rubric)
    assert not isinstance(found, Unreadable)
    assert rubric.value({name: finding.value for name, finding in found.items()}) == 1
    assert rubric.value(dict.fromkeys(rubric.criteria, 0.0) | {"visible": 1.0}) == 3 / 7


def test_what_is_filled_in_is_not_filled_again():
    rubric = read_rubric(yaml.safe_dump(WHOLE | {"helps": "{question} {named}"}).encode())
    _, user = rubric.prompts("yes", "{named} {other} %s", "{question}")
    assert user == "{named} {other} %s {question}"


def test_a_mode_that_a_rubric_does_not_ask_is_told():
    rubric = read_rubric(yaml.safe_dump(WHOLE).encode())
    with pytest.raises(SetupError, match="mine has no entry 'better', which mode pairwise asks"):
        rubric.prompts("pairwise", "Where?")


CRITERION = WHOLE["criteria"]["seen"]


def with_criterion(**changes):
    return {"criteria": {"seen": CRITERION | changes}}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"name": ""}, "name must be a text matching"),
        ({"name": "\x1b[31mred"}, "name must be a text matching"),
        ({"helps": 3}, "helps must be a text, not a whole number"),
        ({"helps": " "}, "helps must be a text of length >= 1"),
        ({"system": ["a"]}, "system must be a text"),
        ({"helps": "{scene}"}, "helps holds {scene}, which stands for nothing"),
        ({"helps": "a" * 5000}, "helps must be a text of length <= 4000"),
        ({"weights": 1}, "weights is unknown"),
        ({True: "Does it?"}, "a name in it must be a text (YAML takes yes, no,"),
        ({"longest_reason": 0}, "longest_reason must be a whole number >= 1"),
        ({"longest_reason": True}, "longest_reason must be a whole number"),
        ({"criteria": ["seen"]}, "criteria must be an object"),
        ({"criteria": {}}, "introduction and criteria go together"),
        (
            {"criteria": {f"c{n}": CRITERION for n in range(33)}},
            "criteria may be 32 at the most",
        ),
        ({"criteria": {True: CRITERION}}, "YAML takes yes, no, on and off for true and false"),
        ({"criteria": {"seen": "Is it?"}}, "criteria.seen must be an object, not a text"),
        (with_criterion(text=None), "criteria.seen.text must be a text, not null"),
        (with_criterion(kind="number"), "criteria.seen.kind cannot be 'number'"),
        (with_criterion(weight=0), "criteria.seen.weight must be a number > 0"),
        (with_criterion(weight=float("nan")), "criteria.seen.weight must be"),
        (with_criterion(weight=float("inf")), "criteria.seen.weight must be"),
        (with_criterion(weight=10**400), "criteria.seen.weight is a number out of range"),
        (with_criterion(weight="2"), "criteria.seen.weight must be"),
        (with_criterion(size=1), "criteria.seen.size is unknown"),
    ],
)
def test_each_fault_is_a_sentence(change, fault):
    assert read_rubric(yaml.safe_dump(WHOLE).encode()).name == "mine"
    with pytest.raises(SetupError, match=re.escape(fault)) as told:
        read_rubric(yaml.safe_dump(WHOLE | change).encode(), "mine.yaml")
    assert str(told.value).startswith("mine.yaml is no rubric: ")


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        b"!!python/object/apply:os.system ['echo no']",
        b"name: !!python/name:os.system",
        b"[" * 50_000,
        b"- " * 20_000,
        b"name: [",
        b"\xff\xfe\x00",
        b"when: 2024-99-99",
        b"n: " + b"9" * 20_000,
        b"",
        b"- a\n- b",
        b"&a [*a]",
        b"name: &a {b: *a}",
        b"x" * 70_000,
        BOMB.encode(),
        b"name: a\ncriteria: &c {seen: *c}",
    ],
    ids=range(15),
)
def test_hostile_text_is_told_and_nothing_else_happens(text):
    with pytest.raises(SetupError) as told:
        read_rubric(text, "hostile.yaml")
    assert str(told.value).startswith("hostile.yaml is no ")
    assert len(str(told.value)) < 1500
    assert "\n" not in str(told.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*WHOLE, "system", "text", "kind", "weight", "seen"]), inner
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_is_a_rubric_or_has_faults(data):
    try:
        rubric = read_rubric(yaml.safe_dump(data).encode())
    except SetupError:
        return
    assert isinstance(rubric, Rubric)


def test_files_and_names_that_are_no_rubric(tmp_path):
    with pytest.raises(SetupError, match=r"there is no rubric 'nothing': .* one of .*view"):
        load_rubric("nothing")
    with pytest.raises(SetupError, match="there is no rubric"):
        load_rubric("../rubrics/view")
    with pytest.raises(SetupError, match="there is no rubric"):
        load_rubric(str(tmp_path))
    mine = tmp_path / "mine.yaml"
    mine.write_bytes(
        files("render_agent.agents.verifiers.judge").joinpath("rubrics", "view.yaml").read_bytes()
    )
    assert load_rubric(str(mine)) == load_rubric("view")
