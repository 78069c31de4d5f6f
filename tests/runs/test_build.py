"""Parts of a run are built from its options in one place, and inconsistent options are refused."""

import pickle
import re

import pytest
from factories.runs import make_config, make_questions

from render_agent.agents.agent import Agent
from render_agent.agents.lookahead import Best, Lookahead, Show
from render_agent.agents.rephrase import Rephrase
from render_agent.agents.vote import Vote
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.runs.conflicts import refuse_idle_options
from render_agent.runs.runner import start_run


def parts_of(**options):
    return build(RunConfig(**{"batch": True} | options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--batch.*--ply.*--question"),
        ({"batch": True, "ply": "x.ply"}, "--batch.*--ply"),
        ({"question": "?"}, "--batch.*--ply"),
        ({"ply": "x.ply", "question": " "}, "--ply.*--question"),
        ({"batch": True, "question": "?"}, "--question.*--ply"),
        ({"batch": True, "option": ("A. x",)}, "--option.*--ply"),
    ],
)
def test_inconsistent_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        build(RunConfig(**options))


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
def test_agent_specifications_are_parsed(options, agent):
    assert parts_of(temperature=1, **options).agent == agent


@pytest.mark.parametrize(
    "agent",
    [
        "",
        *"vote vote:1 vote:65 vote:x single:2 best:3.5 lookahead:4:2 rephrase:4 rephrase:1x1 votes:3".split(),
    ],
)
def test_invalid_agents_are_refused(agent):
    with pytest.raises(UsageError, match="--agent"):
        parts_of(temperature=1, agent=agent)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agent": "vote:3", "temperature": 0}, "--temperature above 0"),
        ({"agent": "best:3"}, "needs --verifier random or learned:DIR"),
        ({"agent": "best:3", "verifier": ("geometry",)}, "--agent lookahead:3"),
        ({"verifier": ("random",)}, "--agent single takes no verifier"),
        ({"agent": "vote:3", "verifier": ("random",)}, "--agent vote:3 takes no verifier"),
        ({"agent": "vote:3", "engine": "human"}, "--engine human"),
        ({"agent": "lookahead:3", "views": "tour"}, "--views free"),
        ({"agent": "lookahead:3", "views": "none"}, "--views free"),
        ({"agent": "lookahead:3", "verifier": ("guess",)}, "--verifier 'guess' is not valid"),
        ({"agent": "lookahead:3", "verifier": ("learned",)}, "--verifier 'learned' is not valid"),
        ({"agent": "lookahead:3", "verifier": ("judge:",)}, "--verifier 'judge:' is not valid"),
        ({"agent": "lookahead:3", "verifier": ("random", "random")}, "named twice"),
    ],
)
def test_inconsistent_agent_options_are_refused(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        parts_of(**{"temperature": 1} | options)


def test_voting_works_without_moves():
    for views in ("none", "tour", "free"):
        assert parts_of(temperature=1, agent="vote:3", views=views).verifiers == ()


def test_geometry_is_the_default_verifier_for_rendered_moves():
    parts = parts_of(temperature=1, agent="lookahead:3")
    assert [(plan.name, plan.argument) for plan in parts.verifiers] == [("geometry", None)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probe": ("map",), "views": "none"}, "--probe.*--views none"),
        ({"probe": ("pose",), "views": "tour"}, "--probe pose.*--views tour"),
        ({"tools": "measure", "views": "four"}, "--tools measure.*--views free"),
        ({"tools": "measure", "image_stress": "black"}, "--tools measure.*--image-stress real"),
        ({"image_stress": "noise", "views": "none"}, "--image-stress noise.*--views none"),
        ({"change": ("move",), "image_stress": "mirrored"}, "--change.*--image-stress mirrored"),
        ({"change": ("move",), "image_stress": "shuffled"}, "--change.*--image-stress shuffled"),
        ({"change": ("fly",)}, "--change 'fly'"),
        ({"view_types": ("top",), "views": "four"}, "--view-types"),
        ({"engine": "scripted", "thinking": "on"}, "--thinking.*--engine scripted"),
        ({"engine": "human", "thinking_budget": 9}, "--thinking-budget.*--engine human"),
        ({"engine": "scripted", "reproducible": "on"}, "--reproducible on needs.*transformers"),
        ({"devices": ("cpu", "cpu"), "workers": 3}, "--devices.*--workers 3"),
        ({"engine": "human", "workers": 2}, "--engine human.*--workers"),
    ],
)
def test_inconsistent_views_engines_and_workers_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        parts_of(**options)


def test_inconsistent_options_leave_no_run_folder(tmp_path):
    config = make_config(tmp_path, make_questions(tmp_path, 1), probe=("map",), views="none")
    with pytest.raises(UsageError, match="--probe"):
        start_run(config)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": "nowhere"}, "no view policy 'nowhere'"),
        ({"temperature": float("nan")}, "--temperature"),
        ({"view_types": ("ego", "gone")}, "--view-types.*'gone'"),
        ({"max_turns": 0}, "--max-turns"),
    ],
)
def test_invalid_values_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        parts_of(**options)


@pytest.mark.parametrize(
    ("options", "true"),
    [
        ({}, {"free", "faithful"}),
        ({"views": "none"}, {"blind"}),
        ({"views": "tour"}, {"passive", "faithful"}),
        ({"tools": "graph"}, {"blind"}),
        ({"image_stress": "black"}, {"free"}),
        ({"image_stress": "mirrored", "views": "four"}, {"passive", "faithful"}),
    ],
)
def test_what_is_shown_follows_from_views_tools_and_stress(options, true):
    parts = parts_of(**options)
    names = ("blind", "free", "passive", "faithful")
    assert {name for name in names if getattr(parts, name)} == true


def test_device_of_a_verifier_is_not_idle():
    options = {"engine": "scripted", "agent": "lookahead:2", "temperature": 1, "device": "cpu"}
    refuse_idle_options(parts_of(verifier=("embedding",), **options), ["device"])


def test_engine_plugin_has_default_traits_without_import():
    engine = parts_of(engine="not-installed").engine
    assert (engine.uses_model, engine.loads_weights, engine.single_sample) == (True, True, False)


def test_parts_can_be_pickled():
    options = {"agent": "lookahead:3", "temperature": 1.0, "verifier": ("geometry", "random")}
    parts = parts_of(image_stress="shuffled", **options)
    assert parts.prompt.instructions
    unpickled = pickle.loads(pickle.dumps(parts))
    assert unpickled.config == parts.config
    assert [v.own_scene for v in unpickled.verifiers] == [False, False]
    assert unpickled.prompt.instructions == parts.prompt.instructions


def test_default_model_depends_on_the_engine():
    assert parts_of().model_name == "Qwen/Qwen3-VL-8B-Instruct"
    assert parts_of(engine="scripted").model_name == "explorer"
    assert parts_of(engine="scripted", model="random").model_name == "random"
