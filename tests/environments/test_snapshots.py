"""A restored environment continues like the one that the snapshot was taken of, and branches do not see each other."""

import copy
import multiprocessing
import pickle

import numpy as np
import pytest
from environments.test_environment import SMALL, Policy, lines

import render_agent
from render_agent.errors import UsageError

OTHER = [{"rotation_angle_degrees": -60, "forward_meters": 1}, {"view": "top"}, "nonsense"]

KINDS = {
    "free": {"rewards": {"answer": 1, "newly_visible": 1, "blocked": -1}},
    "probed": {"probe": ("map",), "rewards": {"map_error": -1, "turn": 0.1}},
    "tour": {"views": "tour"},
    "noise": {"image_stress": "noise"},
}


def make(record=None, **options):
    return render_agent.Environment.from_benchmark(
        "rooms", limit=2, record=record, **{**SMALL, **options}
    )


def plain(value):
    """Return an observation with arrays and images as bytes, for comparison."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return np.asarray(value).tobytes() if hasattr(value, "__array_interface__") else value


def play(env, info, steps=99):
    """Let the policy continue; return the observations, rewards and `info` of its steps."""
    results = []
    while "status" not in info and len(results) < steps:
        text = Policy().text(info["question_id"], info["turn"], probe=info["probe"])
        *result, info = env.step(text)
        results.append(plain([*result, info]))
    return results


def finish_elsewhere(connection, data):
    env, info = pickle.loads(data)
    connection.send(play(env, info))


@pytest.mark.parametrize("kind", KINDS)
def test_restored_episode_continues_byte_for_byte(kind, tmp_path):
    with make(**KINDS[kind]) as env, make(**KINDS[kind]) as other:
        observation, info = env.reset()
        points = []
        while "status" not in info:
            points.append((env.snapshot(), plain(observation), info))
            text = Policy().text(info["question_id"], info["turn"], probe=info["probe"])
            observation, *_, info = env.step(text)
        whole = play(env, env.reset(options={"id": points[0][2]["question_id"]})[1])
        assert len(whole) == len(points) > 2
        for number, (snapshot, seen, told) in enumerate(points):
            for place in (env, other):  # `other` has its own world
                observation, info = place.restore(snapshot)
                assert plain(observation) == seen
                assert {**info, "rewards": told["rewards"]}.items() <= told.items()
                for reply in OTHER[: 1 + number % 3]:
                    if "status" not in info:
                        *_, info = place.step(reply)
                _, info = place.restore(pickle.loads(pickle.dumps(snapshot)))
                assert play(place, info) == whole[number:]


def test_copies_and_pickles_are_independent_environments():
    env = make(**KINDS["probed"])
    _, info = env.reset(seed=3)
    play(env, info, 3)
    _, info = env.restore(env.snapshot())
    twin = copy.deepcopy(env)
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=finish_elsewhere, args=(theirs, pickle.dumps((env, info))))
    process.start()
    before = plain(env._observation())
    whole = play(twin, info)
    assert plain(env._observation()) == before
    assert play(env, info) == whole == mine.recv()
    process.join()
    assert env.reset()[1] == twin.reset()[1]


def test_recording_contains_the_last_branch_only(tmp_path):
    with make(tmp_path / "plain") as env:
        play(env, env.reset()[1])
        (expected,) = env.world.recorder.paths
    with make(tmp_path / "branches") as env:
        _, info = env.reset()
        play(env, info, 1)
        first = env.snapshot()
        for reply in OTHER:
            env.restore(first)
            env.step(reply)
            env.snapshot()
        _, info = env.restore(first)
        play(env, info)
        (path,) = env.world.recorder.paths
        _, info = env.restore(first)  # after the end: in a folder of its own
        play(env, info)
        again = env.world.recorder.paths[1]
    assert lines(path) == lines(again) == lines(expected)
    for folder in (path, again):
        images = {
            file.relative_to(folder): file.read_bytes() for file in folder.glob("views/**/*.png")
        }
        assert images == {
            file.relative_to(expected): file.read_bytes()
            for file in expected.glob("views/**/*.png")
        }


def test_snapshot_needs_an_episode_and_its_question():
    with make() as env, make(type="route_planning") as other:
        with pytest.raises(UsageError, match="reset"):
            env.snapshot()
        env.reset()
        with pytest.raises(UsageError, match="question"):
            other.restore(env.snapshot())
