"""Rubrics: the bundled ones, and error messages for invalid ones."""

import json
import tempfile
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml
from factories.documentation import blocks
from hypothesis import given
from hypothesis import strategies as st

from render_agent.agents.verifiers.judge.batch_score import (
    criteria_form,
    criteria_schema,
    read_criteria,
)
from render_agent.agents.verifiers.judge.rubric import (
    Rubric,
    bundled_rubrics,
    load_rubric,
)
from render_agent.engines.engine import Reply
from render_agent.errors import SetupError

RUBRIC = {
    "name": "mine",
    "helps": "Does it help with {question}?",
    "introduction": "Judge.",
    "criteria": {"seen": {"text": "Is {named} seen?", "kind": "boolean"}},
}


def read_rubric(text):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mine.yaml"
        file.write_bytes(text)
        return load_rubric(str(file))


def test_bundled_rubrics_support_every_mode():
    assert "view" in bundled_rubrics()
    for name in bundled_rubrics():
        rubric = load_rubric(name)
        assert rubric.name == name
        for mode in ("yes", "json"):
            system, user = rubric.prompts(mode, "How many chairs are there?")
            assert "How many chairs are there?" in user
            assert "{" not in system + user


def test_criteria_of_the_view_rubric():
    rubric = load_rubric("view")
    assert list(rubric.criteria) == ["visible", "unoccluded", "scale", "new"]
    form = criteria_form(rubric)
    assert all(f"- {name}: " in form for name in rubric.criteria)


def test_rubric_in_the_docs_is_valid():
    (example,) = [block for block in blocks("how-to/judge.md", "yaml") if "criteria:" in block]
    assert list(read_rubric(example.encode()).criteria) == ["visible", "share"]


def test_replies_that_match_the_schema_can_be_parsed():
    rubric = load_rubric("view")
    schema = criteria_schema(rubric)
    jsonschema.Draft202012Validator.check_schema(schema)
    best = {
        name: {"reason": "so", "value": True if entry.kind == "boolean" else 1.0}
        for name, entry in rubric.criteria.items()
    }
    jsonschema.validate(best, schema)
    scores = read_criteria(Reply((json.dumps(best),)), rubric)
    assert [score.value for score in scores.values()] == [1.0] * 4


def test_inserted_text_is_not_expanded():
    rubric = read_rubric(yaml.safe_dump(RUBRIC | {"helps": "{question} {named}"}).encode())
    _, user = rubric.prompts("yes", "{named} {other} %s", "{question}")
    assert user == "{named} {other} %s {question}"


def test_missing_mode_is_named():
    rubric = read_rubric(yaml.safe_dump({"name": "mine", "helps": "Does it?"}).encode())
    with pytest.raises(SetupError, match="'introduction'"):
        rubric.prompts("json", "Where?")


CRITERION = RUBRIC["criteria"]["seen"]


def with_criterion(**changes):
    return {"criteria": {"seen": CRITERION | changes}}


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        ({"helps": 3}, "helps"),
        ({"weights": 1}, "weights"),
        ({True: "Does it?"}, "key"),
        ({"criteria": ["seen"]}, "criteria"),
        ({"criteria": {}}, "introduction"),
        ({"helps": "", "introduction": "", "criteria": {}}, "helps"),
        ({"criteria": {"seen": "Is it?"}}, "criteria"),
        (with_criterion(kind="number"), "kind"),
        (with_criterion(size=1), "size"),
    ],
)
def test_invalid_entry_is_named(change, entry):
    assert read_rubric(yaml.safe_dump(RUBRIC).encode()).name == "mine"
    with pytest.raises(SetupError, match=entry) as caught:
        read_rubric(yaml.safe_dump(RUBRIC | change).encode())
    assert "mine.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        b"name: [",
        b"\xff\xfe\x00",
        b"when: 2024-99-99",
        b"n: " + b"9" * 20_000,
        b"",
        b"- a\n- b",
        b"name: a\ncriteria: &c {seen: *c}",
    ],
    ids=range(7),
)
def test_invalid_file_is_refused_by_name(text):
    with pytest.raises(SetupError, match=r"mine\.yaml") as error:
        read_rubric(text)
    assert len(str(error.value)) < 1500


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*RUBRIC, "system", "text", "kind", "seen"]), inner)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_yaml_is_a_rubric_or_rejected(data):
    try:
        rubric = read_rubric(yaml.safe_dump(data).encode())
    except SetupError:
        return
    assert isinstance(rubric, Rubric)


def test_unknown_rubrics_are_rejected(tmp_path):
    with pytest.raises(SetupError, match=r"'nothing'.*view"):
        load_rubric("nothing")
    for name in ("../rubrics/view", str(tmp_path)):
        with pytest.raises(SetupError, match=name):
            load_rubric(name)
    mine = tmp_path / "mine.yaml"
    mine.write_bytes(
        files("render_agent.agents.verifiers.judge").joinpath("rubrics", "view.yaml").read_bytes()
    )
    assert load_rubric(str(mine)) == load_rubric("view")
