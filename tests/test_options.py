"""Option declarations: which affect results, what is stored, and how values are parsed."""

import json
import math
from dataclasses import replace
from typing import get_args

import pytest

from render_agent.engines.bundled_models import NOTES
from render_agent.engines.engine_options import engine_options
from render_agent.errors import UsageError
from render_agent.options import (
    AUTO,
    BUNDLED_MODELS,
    CHANGEABLE,
    OPTIONS,
    PROBES,
    Axis,
    RunConfig,
    Unit,
    fingerprint_of,
    flag_of,
    parse_options,
    public_options,
)
from render_agent.parts.beliefs.ask_beliefs import KEYS
from render_agent.scans.file_frame import METRES, UPRIGHT

# The options that may change when a run is resumed.
CONTRACT = set(
    "base_url batch_jobs batch_size devices finish_together max_batched_turns max_cost max_failures output log_to json"
    " no_self_check port prices quiet ray sight_check verbose workers".split()
)


def other_value(name):
    """Return a value of an option that differs from the given one."""
    value = OPTIONS[name].default
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, tuple):
        return value[:1] or ("x",)
    return "x"


def test_changeable_options_match_the_contract():
    assert CHANGEABLE == CONTRACT


@pytest.mark.parametrize("name", OPTIONS)
def test_fingerprint_depends_only_on_options_that_affect_results(name):
    config = RunConfig()
    changed = replace(config, **{name: other_value(name)})
    assert (changed.fingerprint == config.fingerprint) == (name in CHANGEABLE)


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(
            batch=True, view_types=("top",), type=("a", "b"), image_size=(64, 48), batch_size=3
        ),
        RunConfig(ply="x.ply", question="?", option=("A. left", "B. right")),
    ],
)
def test_options_round_trip_through_json(config):
    restored = RunConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert restored == config
    assert restored.fingerprint == config.fingerprint
    assert config.to_json().keys() == OPTIONS.keys()


def test_former_names_of_saved_options_are_read():
    config = RunConfig(batch=True, view_types=("top",), image_stress="black")
    saved = config.to_json()
    saved["view_types"], saved["pictures"] = saved.pop("view_types"), saved.pop("image_stress")
    assert RunConfig.from_json(saved) == config


def test_fingerprint_of_options_saved_by_older_versions_is_unchanged():
    config = RunConfig(batch=True, seed=3)
    saved = {name: value for name, value in config.to_json().items() if name != "views"}
    assert fingerprint_of(saved) != config.fingerprint
    assert fingerprint_of(json.loads(json.dumps(saved))) == fingerprint_of(saved)
    assert RunConfig.from_json(saved) == config


def test_unknown_option_in_json_is_refused():
    with pytest.raises(UsageError, match="no option 'nothing'"):
        RunConfig.from_json({"batch": True, "nothing": 1})


def test_paths_in_verifier_arguments_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("trained", "model", "unnamed", "org"):
        (tmp_path / name).mkdir()
    for name in ("view", "mine.yaml", "model/config.json", "trained/head.safetensors"):
        (tmp_path / name).write_text("")
    verifiers = ("geometry:unnamed", "learned:trained", "judge:org", "embedding:./model")
    options = {"batch": True, "agent": "lookahead:2", "temperature": 1.0, "verifier": verifiers}
    config = RunConfig(**options, rubric="mine.yaml").absolute()
    assert config.verifier == (
        "geometry:unnamed",
        f"learned:{tmp_path / 'trained'}",
        "judge:org",
        f"embedding:{tmp_path / 'model'}",
    )
    assert config.rubric == str(tmp_path / "mine.yaml")
    assert config.absolute() == config
    assert RunConfig(**options).absolute().rubric == "view"  # the bundled rubric
    assert RunConfig(**options, rubric="none.yaml").absolute().rubric == "none.yaml"


def test_paths_become_absolute_but_names_do_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.jsonl").touch()
    config = RunConfig(
        batch=True, benchmark="mine.jsonl", scannet="scans", model="org/name"
    ).absolute()
    assert (config.benchmark, config.scannet) == (
        str(tmp_path / "mine.jsonl"),
        str(tmp_path / "scans"),
    )
    assert config.model == "org/name"
    assert RunConfig(batch=True, benchmark="rooms").absolute().benchmark == "rooms"


def test_folder_with_the_same_name_does_not_change_a_value(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("vsibench", "rooms", "random"):
        (tmp_path / name).mkdir()
    config = RunConfig(batch=True, benchmark="vsibench", engine="scripted", model="random")
    assert config.absolute() == config
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text("{}")
    with_model = RunConfig(batch=True, model="weights").absolute()
    assert with_model.model == str(tmp_path / "weights")


@pytest.mark.parametrize(("option", "partial"), [({}, False), ({"limit": 3}, True), ({"type": ("x",)}, True),
                                                 ({"scene": ("x",)}, True), ({"id": ("1",)}, True), ({"shuffle": True}, False)])  # fmt: skip
def test_selecting_questions_makes_a_run_partial(option, partial):
    assert RunConfig(batch=True, **option).partial == partial


@pytest.mark.parametrize(
    ("option", "value", "parsed"),
    [
        ("max_turns", "5", 5),
        ("max_turns", 5, 5),
        ("max_model_len", "4096", 4096),
        ("limit", 1, 1),
        ("temperature", "0.5", 0.5),
        ("seed", -3, -3),
        ("image_size", (320, 240), (320, 240)),
        ("image_size", "320X240", (320, 240)),
        ("view_types", "top, ego,top", ("top", "ego")),
        ("view_types", ["ego"], ("ego",)),
        ("scene", "a,b", ("a,b",)),
        ("scene", ["a", "b"], ("a", "b")),
        ("batch_size", "auto", AUTO),
        ("batch_size", 7, 7),
        ("max_failures", "12.5%", "12.5%"),
        ("shuffle", "yes", True),
        ("shuffle", False, False),
        ("dtype", "bfloat16", "bfloat16"),
        ("engine_option", {"top_k": 20, "api": "responses"}, ("top_k=20", "api=responses")),
    ],
)
def test_values_are_parsed_like_flags(option, value, parsed):
    assert parse_options({option: value}) == {option: parsed}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_turns", 0),
        ("max_turns", "1.5"),
        ("max_turns", [1]),
        ("max_model_len", "many"),
        ("limit", 0),
        ("seed", 10**400),
        ("temperature", -1),
        ("temperature", math.nan),
        ("field_of_view", 19),
        ("field_of_view", 141),
        ("image_size", "640"),
        ("image_size", (16, 16)),
        ("image_size", (4097, 640)),
        ("view_types", "ego,side"),
        ("probe", ["everything"]),
        ("batch_size", 0),
        ("batch_size", "half"),
        ("max_failures", "many"),
        ("max_failures", "101%"),
        ("shuffle", "perhaps"),
        ("dtype", "int8"),
        ("engine_option", {"top_k": object()}),
        ("scene", {"a": "b"}),
    ],
)
def test_values_invalid_as_flags_are_refused(option, value):
    with pytest.raises(UsageError, match=flag_of(option)):
        parse_options({option: value})


def test_values_of_an_engine_option_dictionary_are_kept():
    values = {"a": 1.5, "b": "yes", "c": "yes: it's", "d": None, "e": {"f": [1, True, "x y"]}, "g": "null", "h": "1", "i": ""}  # fmt: skip
    assert engine_options(parse_options({"engine_option": values})["engine_option"]) == values


def test_unknown_option_is_refused_and_none_means_not_given():
    with pytest.raises(UsageError, match=r"'max_turn'.*'max_turns'"):
        parse_options({"max_turn": 3})
    assert parse_options({"max_turns": None, "limit": 2}) == {"limit": 2}


def test_every_default_is_a_valid_value():
    defaults = {n: e.default for n, e in OPTIONS.items() if e.default is not None}
    assert parse_options(defaults) == defaults


def test_declared_choices_match_the_registries():
    assert set(BUNDLED_MODELS) == NOTES.keys()
    assert set(PROBES) == KEYS.keys()
    assert set(get_args(Unit)) == METRES.keys()
    assert set(get_args(Axis)) == set(UPRIGHT)


def test_limit_passed_as_text_is_stored_as_a_number():
    config = RunConfig(**parse_options({"batch": True, "max_model_len": "4096"}))
    assert RunConfig.from_json(config.to_json()).max_model_len == 4096


def test_published_options_contain_no_paths_or_keys(tmp_path):
    config = RunConfig(
        ply=str(tmp_path / "room.ply"),
        base_url=("http://inside:8000/v1",),
        engine_option=("hf_token=secret", "top_k=3"),
        verifier=(f"learned:{tmp_path}/trained",),
    )
    published = public_options(config.to_json())
    assert published.keys() == OPTIONS.keys() - {"output", "port", "base_url", "ray"}
    assert published["ply"] == "room.ply"
    assert published["verifier"] == ["learned:trained"]
    assert published["engine_option"] == ["top_k=3"]
