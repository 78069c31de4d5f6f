"""The environments for other frameworks, used as those frameworks use them."""

import inspect
import json
import shutil
from pathlib import Path

import pytest
from factories.documentation import blocks
from factories.models import small_model

import render_agent
from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision
from render_agent.environments.trl import environment_factory
from render_agent.environments.vagen import VagenEnvironment
from render_agent.errors import UsageError
from render_agent.util.coroutines import run_in_thread

SMALL = {"image_size": "64x48", "max_turns": 3}


def test_vagen_gets_texts_with_a_placeholder_per_image():
    async def episode():
        env = VagenEnvironment({"benchmark": "rooms", "limit": 3, **SMALL})
        system = await env.system_prompt()
        first, _ = await env.reset(seed=2)
        later = await env.step('{"rotation_angle_degrees": 90}')
        last = await env.step('{"answer": "A", "done": true}')
        while not last[2]:  # the answer may not be one of this question
            last = await env.step("{}")
        await env.close()
        return system, first, later, last

    system, first, later, last = run_in_thread(episode())
    assert "<image>" not in system["obs_str"]
    for observation in (first, later[0]):
        images = observation["multi_modal_input"]["<image>"]
        assert observation["obs_str"].count("<image>") == len(images) > 0
        assert images[0].size == (64, 48)
    assert last[2] is True
    assert isinstance(last[3]["success"], bool)
    assert last[3]["success"] == (last[1] == 1.0)


def test_vagen_environment_of_one_question():
    room = str(render_agent.bundled_rooms()["room00"])
    env = VagenEnvironment(
        {"scan": room, "question": "How many chairs?", "ground_truth": 4, **SMALL}
    )

    async def episode():
        await env.reset(seed=0)
        return await env.step('{"answer": 4, "done": true}')

    _, reward, done, info = run_in_thread(episode())
    assert (reward, done, info["success"]) == (1.0, True, True)


def test_trl_tools_step_through_an_episode(tmp_path):
    make = environment_factory("rooms", limit=2, record=tmp_path, rewards={"turn": 1}, **SMALL)
    env, other = make(), make()
    blocks = env.reset(id="1", prompt=[])
    assert "image" in [block["type"] for block in blocks]
    other.reset()
    assert "image" in [block["type"] for block in env.move(forward_meters=0.5)]
    assert "image" in [block["type"] for block in env.look(view="top")]
    env.answer("2")
    assert env.get_reward() == 3
    assert "over" in env.look()[0]["text"]
    env._env.close()
    (path,) = tmp_path.glob("*/turns.jsonl")
    turns = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [turn["turn"] for turn in turns] == [0, 1, 2]
    assert turns[0]["outcome"]["requested"] == [0.5, 0, 0]


def test_trl_refuses_agents_with_several_replies():
    with pytest.raises(UsageError):
        environment_factory("rooms", limit=1, agent="vote:3", temperature=1.0)


def test_trl_tools_are_those_of_the_protocol():
    patch_torchvision()
    from transformers.utils import get_json_schema

    env = environment_factory("rooms", limit=1, **SMALL)()
    world = env._env.world
    env._env.close()
    declared = {tool["function"]["name"]: tool["function"] for tool in world.parts.prompt.tools()}
    methods = dict(inspect.getmembers(env, predicate=inspect.ismethod))
    tools = {n for n in methods if not n.startswith("_")} - {"reset", "get_reward"}
    assert tools == set(declared)
    for name in tools:
        properties = get_json_schema(methods[name])["function"]["parameters"]["properties"]
        parameters = declared[name]["parameters"]["properties"]
        if name == "answer":  # TRL's ends the episode
            assert set(properties) == {"answer"}
            continue
        for parameter, entry in properties.items():
            assert entry["description"] == parameters[parameter]["description"]
        assert [*properties] == [*parameters]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_trl_trains_with_the_script_in_the_docs(tmp_path):
    patch_torchvision()
    trl = pytest.importorskip("trl")
    pytest.importorskip("datasets")
    folder = tmp_path / "model"
    shutil.copytree(small_model(), folder)
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3_vl.jinja"
    shutil.copy(template, folder / "chat_template.jinja")
    replacements = {
        '"Qwen/Qwen3-VL-2B-Instruct"': "MODEL",
        "max_turns=6": "limit=2, rewards={'turn': 1}, **SMALL",
        "range(8)": "range(2)",
        "num_generations=8, max_completion_length=4096": "**SETTINGS",
    }
    settings = {
        "output_dir": str(tmp_path / "out"),
        "model_init_kwargs": {"dtype": "float32"},
        "per_device_train_batch_size": 2,
        "num_generations": 2,
        "max_completion_length": 8,
        "max_steps": 1,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "save_strategy": "no",
    }
    (code,) = [b for b in blocks("how-to/environments.md", "python") if "GRPOTrainer" in b]
    for before, after in replacements.items():
        assert before in code
        code = code.replace(before, after)
    names = {"MODEL": str(folder), "SMALL": SMALL, "SETTINGS": settings}
    exec(compile(code, "environments.md", "exec"), names)
    trainer = names["trainer"]
    assert trainer.state.log_history[0]["rewards/TrlEnvironment/mean"] == 0
    assert trainer.state.global_step == 1
