import json
import re
from dataclasses import replace

import pytest

from render_agent.agents.agent import Agent
from render_agent.agents.lookahead import Best, Lookahead, Show
from render_agent.agents.rephrase import Rephrase
from render_agent.agents.vote import Vote
from render_agent.config import CHANGEABLE, OPTIONS, RunConfig, fingerprint_of
from render_agent.config.file import options_of_file
from render_agent.errors import UsageError

CONTRACT = set(
    "base_url batch_size devices finish_together max_batched_turns max_failures output log_to json"
    " port quiet ray verbose workers".split()
)
"""What may differ when a run is continued, of the options that there are."""


def written(tmp_path, content):
    path = tmp_path / "options.yaml"
    path.write_text(content)
    return str(path)


CHOOSING = {"agent": "lookahead:4", "verifier": ("random",)}
"""Values that these options can have, with an agent that chooses."""


NAMED = {
    "probe": ("map",),
    "views": "none",
    "pictures": "black",
    "tools": "measure",
    "max_failures": "10%",
    "change": ("move",),
}
"""Other names that these options can have."""


def another(name):
    """Return some other value of an option."""
    value = OPTIONS[name].default
    if name in CHOOSING:
        return CHOOSING[name]
    if name in NAMED:
        return NAMED[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, tuple):
        return value[:1] or ("x",)
    return "x"


def test_the_options_that_may_change_are_those_of_the_contract():
    assert CHANGEABLE == CONTRACT


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - {"batch", "ply", "question", "option"}))
def test_the_fingerprint_changes_with_what_changes_results(name):
    given = {"agent": "lookahead:3", "temperature": 1} if name in CHOOSING else {}
    config = RunConfig(batch=True, **given)
    changed = replace(config, **{name: another(name)})
    assert (changed.fingerprint == config.fingerprint) == (name in CHANGEABLE)


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(batch=True, kinds=("top",), type=("a", "b"), image_size=(64, 48), batch_size=3),
        RunConfig(ply="x.ply", question="?", option=("A. left", "B. right")),
    ],
)
def test_the_options_survive_json(config):
    again = RunConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert again.fingerprint == config.fingerprint
    assert config.to_json().keys() == OPTIONS.keys()


def test_options_that_were_saved_before_there_were_others_keep_their_fingerprint():
    config = RunConfig(batch=True, seed=3)
    saved = {name: value for name, value in config.to_json().items() if name != "views"}
    assert fingerprint_of(saved) != config.fingerprint
    assert fingerprint_of(json.loads(json.dumps(saved))) == fingerprint_of(saved)
    assert RunConfig.from_json(saved) == config


def test_an_unknown_option_in_json_is_refused():
    with pytest.raises(UsageError, match="no option 'nothing'"):
        RunConfig.from_json({"batch": True, "nothing": 1})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "--batch.*--ply.*--question"),
        ({"batch": True, "ply": "x.ply"}, "--batch.*--ply"),
        ({"question": "?"}, "--batch.*--ply"),
        ({"ply": "x.ply", "question": " "}, "--ply.*--question"),
        ({"batch": True, "question": "?"}, "--question.*--ply"),
        ({"batch": True, "option": ("A. x",)}, "--option.*--ply"),
        ({"batch": True, "temperature": float("nan")}, "--temperature"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, named):
    with pytest.raises(UsageError, match=named):
        RunConfig(**options)


def test_rubrics_and_folders_behind_a_verifiers_colon_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("trained", "model", "unnamed", "org"):
        (tmp_path / name).mkdir()
    for name in ("view", "mine.yaml", "model/config.json", "trained/head.safetensors"):
        (tmp_path / name).write_text("")
    asked = ("geometry:unnamed", "learned:trained", "judge:org", "embedding:./model")
    given = {"batch": True, "agent": "lookahead:2", "temperature": 1.0, "verifier": asked}
    found = RunConfig(**given, rubric="mine.yaml").absolute()
    assert found.verifier == (
        "geometry:unnamed",
        f"learned:{tmp_path / 'trained'}",
        "judge:org",
        f"embedding:{tmp_path / 'model'}",
    )
    assert found.rubric == str(tmp_path / "mine.yaml")
    assert found.absolute() == found
    assert RunConfig(**given).absolute().rubric == "view"  # the one that is shipped
    assert RunConfig(**given, rubric="none.yaml").absolute().rubric == "none.yaml"


def test_paths_become_absolute_and_names_stay(tmp_path, monkeypatch):
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


@pytest.mark.parametrize(("option", "partial"), [({}, False), ({"limit": 3}, True), ({"type": ("x",)}, True),
                                                 ({"scene": ("x",)}, True), ({"id": ("1",)}, True), ({"shuffle": True}, False)])  # fmt: skip
def test_a_run_of_some_questions_is_partial(option, partial):
    assert RunConfig(batch=True, **option).partial == partial


def test_the_default_model_is_that_of_the_engine():
    assert RunConfig(batch=True).model_name == "Qwen/Qwen3-VL-8B-Instruct"
    assert RunConfig(batch=True, engine="scripted").model_name == "explorer"
    assert RunConfig(batch=True, engine="scripted", model="random").model_name == "random"


def test_a_file_gives_options_as_they_would_be_typed(tmp_path):
    file = written(
        tmp_path,
        """\
        max-turns: 5
        batch_size: auto
        quiet: true
        limit: null
        temperature: 0.5
        image_size: [320, 240]
        kinds: [ego, top]
        type: object_counting
        id: [5, 006x]
        option: ["A. left", "B. right"]
        """,
    )
    assert options_of_file(file) == {
        "max_turns": "5",
        "batch_size": "auto",
        "quiet": "true",
        "temperature": "0.5",
        "image_size": "320x240",
        "kinds": "ego,top",
        "type": ["object_counting"],
        "id": ["5", "006x"],
        "option": ["A. left", "B. right"],
    }


@pytest.mark.parametrize("content", ["", "# nothing\n", "{}"])
def test_an_empty_file_gives_none(tmp_path, content):
    assert options_of_file(written(tmp_path, content)) == {}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("nothing: 1", "'nothing'"),
        ("max_turns", "must hold options"),
        ("max_turns: 9\n\tseed: 1", r"line 2"),
        ("? [a]\n: b", "is not YAML"),
        ("max_turns: [1]", "max_turns"),
        ("max_turns: {a: 1}", "max_turns"),
        ("start: 2020-01-01", "start"),
        ("type: [[a]]", "type"),
    ],
)
def test_a_file_that_gives_no_options_is_refused(tmp_path, content, named):
    with pytest.raises(UsageError, match=named):
        options_of_file(written(tmp_path, content))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .* No such file"):
        options_of_file(str(tmp_path / "none.yaml"))
    with pytest.raises(UsageError, match=r"cannot read .* Is a directory"):
        options_of_file(str(tmp_path))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(UsageError, match="is not YAML"):
        options_of_file(str(tmp_path / "bytes.yaml"))


def test_a_folder_that_happens_to_have_a_name_does_not_change_its_meaning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("vsibench", "rooms", "random"):
        (tmp_path / name).mkdir()
    config = RunConfig(batch=True, benchmark="vsibench", engine="scripted", model="random")
    assert config.absolute() == config
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text("{}")
    named = RunConfig(batch=True, model="weights").absolute()
    assert named.model == str(tmp_path / "weights")


@pytest.mark.parametrize(
    ("options", "agent"),
    [
        ({}, Agent("single")),
        ({"agent": "vote:5"}, Vote("vote:5", 5)),
        ({"agent": "best:3", "verifier": ("random",)}, Best("best:3", 3)),
        ({"agent": "lookahead:4"}, Lookahead("lookahead:4", 4)),
        ({"agent": "rephrase:2x3"}, Rephrase("rephrase:2x3", 3, wordings=2)),
        ({"agent": "rephrase:2×3"}, Rephrase("rephrase:2×3", 3, wordings=2)),
        ({"agent": "show:2"}, Show("show:2", 2)),
    ],
)
def test_an_agent_is_read_as_it_is_written(options, agent):
    assert RunConfig(batch=True, temperature=1, **options).turn_agent == agent


@pytest.mark.parametrize(
    "agent",
    [
        "",
        *"vote vote:1 vote:65 vote:x single:2 best:3.5 lookahead:4:2 rephrase:4 rephrase:1x1 votes:3".split(),
    ],
)
def test_an_agent_that_cannot_be_is_refused(agent):
    with pytest.raises(UsageError, match="--agent"):
        RunConfig(batch=True, temperature=1, agent=agent)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"agent": "vote:3", "temperature": 0}, "give a --temperature above 0"),
        ({"agent": "best:3"}, "needs --verifier random or learned:DIR"),
        ({"agent": "best:3", "verifier": ("geometry",)}, "use --agent lookahead:3"),
        ({"verifier": ("random",)}, "--agent single takes no verifier"),
        ({"agent": "vote:3", "verifier": ("random",)}, "--agent vote:3 takes no verifier"),
        ({"agent": "vote:3", "engine": "human"}, "a person gives one"),
        ({"agent": "lookahead:3", "views": "tour"}, "use it with --views free"),
        ({"agent": "lookahead:3", "views": "none"}, "use it with --views free"),
        ({"agent": "lookahead:3", "verifier": ("guess",)}, "--verifier 'guess' is not valid"),
        ({"agent": "lookahead:3", "verifier": ("learned",)}, "--verifier 'learned' is not valid"),
        ({"agent": "lookahead:3", "verifier": ("judge:",)}, "--verifier 'judge:' is not valid"),
        ({"agent": "lookahead:3", "verifier": ("random", "random")}, "named twice"),
    ],
)
def test_options_of_choosing_that_contradict_each_other_are_refused(options, told):
    with pytest.raises(UsageError, match=re.escape(told)):
        RunConfig(**{"batch": True, "temperature": 1} | options)


def test_votes_need_no_moves():
    for views in ("none", "tour", "free"):
        assert RunConfig(batch=True, temperature=1, agent="vote:3", views=views).verifiers == ()


def test_geometry_chooses_where_moves_are_drawn_and_nobody_else_is_named():
    config = RunConfig(batch=True, temperature=1, agent="lookahead:3")
    assert [(plan.name, plan.argument) for plan in config.verifiers] == [("geometry", None)]
