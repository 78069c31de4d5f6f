"""The Gymnasium interface, with Gymnasium's own checks."""

from copy import deepcopy

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv  # noqa: E402
from gymnasium.vector.utils import (  # noqa: E402
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

import render_agent  # noqa: E402
from render_agent.environments.gym import AnyText  # noqa: E402
from render_agent.errors import UsageError  # noqa: E402
from render_agent.runs.read import RunData  # noqa: E402

# Python 3.12 warns of every fork of a process with threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Benchmark", {"benchmark": "rooms", "limit": 3}),
        (
            "Question",
            {"scan": render_agent.bundled_rooms()["room00"], "question": "How many chairs?"},
        ),
    ],
)
def test_gymnasium_accepts_the_environments(name, options):
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(f"render_agent/{name}-v0", image_size="64x48", max_turns=2, **options)
    check_env(env.unwrapped)
    observation, info = env.reset(seed=5)
    assert observation in env.observation_space
    assert info["conversation"][-1]["role"] == "user"
    assert env.render().shape == (48, 64, 3)
    env.close()


TURN, UNREADABLE = '{"rotation_angle_degrees": 20}', "not json"
ANSWER, WAIT = '{"answer": "2", "done": true}', '{"answer": "2", "view": "ego"}'
ACTIONS = [(TURN, TURN), (TURN, UNREADABLE), (ANSWER, WAIT), (TURN, TURN), (TURN, TURN)]
OPTIONS = {"benchmark": "rooms", "scene": "room00", "type": "object_counting", "limit": 2}
OPTIONS |= {"image_size": "48x32", "max_turns": 3, "start": "middle"}


def make():
    return gymnasium.make("render_agent/Benchmark-v0", **OPTIONS)


def make_vec(mode, **options):
    return gymnasium.make_vec(
        "render_agent/Benchmark-v0", 2, mode, vector_kwargs=options, **OPTIONS
    )


def plain(value):
    """Return the observations or infos of a vector environment, comparable and without images."""
    if isinstance(value, dict):
        return {
            k: plain(v)
            for k, v in value.items()
            if k.strip("_") not in ("messages", "conversation")
        }
    return value.tolist() if isinstance(value, np.ndarray) else list(value)


def play(envs):
    """Return the results of all actions, as plain values."""
    try:
        results = [envs.reset(seed=5), *map(envs.step, ACTIONS)]
    finally:
        envs.close()
    return [[plain(part) for part in result] for result in results]


@pytest.fixture(scope="module")
def expected():
    """The episodes of two single environments, in step."""
    return play(SyncVectorEnv([make] * 2))


def test_infos_of_different_steps_are_joined(expected):
    _, _, terminated, truncated, infos = expected[3]
    assert (terminated, truncated) == ([True, False], [False, True])
    assert infos["_outcome"] == [False, True]
    assert infos["answer"] == ["2", "2"]
    assert "answer" not in expected[2][4]
    assert all(infos["ground_truth"])
    assert expected[2][4]["_malformed"] == [False, True]
    assert "malformed" not in expected[1][4]
    assert "outcome" not in expected[4][4], "it belongs to the earlier episode"


@pytest.mark.parametrize(
    "make_envs",
    [
        lambda: AsyncVectorEnv([make] * 2, context="fork"),
        lambda: AsyncVectorEnv([make] * 2, context="spawn"),
        lambda: AsyncVectorEnv([make] * 2, context="fork", shared_memory=False),
        lambda: make_vec("sync"),
        lambda: make_vec("async"),
    ],
    ids=["fork", "spawn", "without shared memory", "make_vec sync", "make_vec async"],
)
def test_vector_environments_of_gymnasium_are_equal(make_envs, expected):
    assert play(make_envs()) == expected


def test_shared_texts_are_live_unless_copied():
    space = AnyText()
    memory = create_shared_memory(space, n=2)
    texts = read_from_shared_memory(space, memory, n=2)
    for index, text in enumerate(["a\0b", "20° ✓ \ud800"]):
        write_to_shared_memory(space, index, text, memory)
    copied = deepcopy(texts)
    write_to_shared_memory(space, 0, "", memory)
    assert copied == ("a\0b", "20° ✓ \ud800")
    assert [*texts] == ["", "20° ✓ \ud800"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # Gymnasium's, of the worker that fails
def test_environment_in_a_forked_child_fails_instead_of_hanging(tmp_path):
    live = gymnasium.make("render_agent/Benchmark-v0", record=tmp_path, **OPTIONS)
    live.reset(seed=5)
    live.step(TURN)
    envs = AsyncVectorEnv([make, lambda: live], context="fork")
    with pytest.raises(UsageError, match="fork"):
        envs.reset(seed=5)
    envs.close()
    assert live.step(ANSWER)[2], "it still works in the process that created it"
    (path,) = live.unwrapped.env.world.recorder.paths
    assert not RunData(path).finished, "the child has not closed the recorded run"
    live.close()
    assert RunData(path).finished
    with pytest.raises(UsageError, match="closed"):
        live.reset()
