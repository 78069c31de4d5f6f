"""Rewards of questions whose answer is a pose: sums and bounds; and drawing for rewards in several threads at once."""

import random
import runpy
import sys
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from factories.views import view_questions

import render_agent
from render_agent.errors import UsageError

SMALL = {"image_size": "96x72", "view_types": "ego", "max_turns": 5}
TERMS = {"distance": 1.0, "angle": 1.0, "overlap": 1.0, "success": 1.0}
DONE = {"answer": None, "done": True}
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_reach_view.py"


def random_reply(chance):
    return {
        "rotation_angle_degrees": chance.choice([-120, -40, 60, 150]),
        "pitch_degrees": chance.choice([-10, 0, 10]),
        "forward_meters": chance.choice([0, 0.5, 1.5]),
        "z_delta_meters": chance.choice([-0.3, 0, 0.3]),
    }


@pytest.mark.parametrize("tier", ["rotation", "translation", "near", "far"])
def test_sums_are_differences_between_first_and_last_pose(tmp_path, tier):
    chance = random.Random(tier)
    env = render_agent.Environment.from_benchmark(view_questions(tmp_path), rewards=TERMS, **SMALL)
    env.reset(options={"id": tier})
    rewards, is_over = [], False
    while not is_over:
        reply = random_reply(chance) if len(rewards) < 3 else DONE
        _, reward, terminated, truncated, info = env.step(reply)
        assert reward == pytest.approx(sum(info["rewards"].values()))
        rewards.append(info["rewards"])
        is_over = terminated or truncated
    start, *_, end = env.state.target_errors
    sums = {name: sum(step[name] for step in rewards) for name in TERMS}
    assert sums["distance"] == pytest.approx(start.path - end.path)
    assert sums["angle"] == pytest.approx(
        (start.heading + start.pitch - end.heading - end.pitch) / 180
    )
    assert sums["overlap"] == pytest.approx(end.overlap - start.overlap)
    assert sums["success"] == end.is_within(0.5, 30.0) == env.score
    assert sums["distance"] <= start.path + 1e-9
    assert sums["angle"] <= 5 / 3
    assert -1 <= sums["overlap"] <= 1
    assert sums == pytest.approx(info["returns"])


def test_a_walk_to_the_target_earns_the_bounds(tmp_path):
    env = render_agent.Environment.from_benchmark(view_questions(tmp_path), rewards=TERMS, **SMALL)
    env.reset(options={"id": "near"})
    start = {"rotation_angle_degrees": 135, "pitch_degrees": -10}
    env.step(start)
    # heading 135: 0.8 m to -x and 1.0 m to +y
    move = {"forward_meters": 1.8 / 2**0.5, "left_meters": -0.2 / 2**0.5, "z_delta_meters": -0.2}
    env.step(move)
    *_, info = env.step(DONE)
    (first, *_), returns = env.state.target_errors, info["returns"]
    assert returns["success"] == 1.0
    assert returns["distance"] == pytest.approx(first.path, abs=0.02)
    assert returns["angle"] == pytest.approx((first.heading + first.pitch) / 180, abs=1e-3)
    assert returns["overlap"] == pytest.approx(1 - first.overlap, abs=0.02)


def test_observations_hide_the_pose_of_the_target(tmp_path):
    env = render_agent.Environment.from_benchmark(view_questions(tmp_path), rewards=TERMS, **SMALL)
    observation, info = env.reset(options={"id": "rotation"})
    assert observation["pose"] == pytest.approx([2.4, 2.3, 1.6, 0.0, 0.0])
    assert observation["camera_to_world"][:3, 2] == pytest.approx([1.0, 0.0, 0.0])  # looks along +x
    images = [p for p in observation["messages"][1]["content"] if p["type"] == "image"]
    assert len(images) == 2
    assert not np.array_equal(np.asarray(images[0]["image"]), observation["image"])
    assert np.array_equal(np.asarray(images[1]["image"]), observation["image"])
    assert not {"ground_truth", "answer"} & info.keys()


def test_terms_need_targets():
    with pytest.raises(UsageError, match="reach_view"):
        render_agent.Environment.from_benchmark("rooms", rewards={"overlap": 1}, limit=1)


def test_snapshots_of_finished_episodes_keep_the_reached_view(tmp_path):
    options = {"rewards": TERMS, "record": tmp_path / "runs", **SMALL}
    with render_agent.Environment.from_benchmark(view_questions(tmp_path), **options) as env:
        env.reset(options={"id": "near"})
        start = env.snapshot()
        env.step({"rotation_angle_degrees": 20})
        first = env.step(DONE)[-1]
        over = env.snapshot()
        env.restore(start)
        env.step({"rotation_angle_degrees": 20})
        assert env.step(DONE)[-1]["returns"] == first["returns"]
        assert env.restore(over)[1]["returns"] == first["returns"]


@pytest.mark.parametrize(("benchmark", "terms"), [("views", TERMS), ("rooms", {"visible": 1})])
def test_episodes_side_by_side_earn_the_same(benchmark, terms):
    """Rewards do not depend on the other episodes."""
    rewards = {1: {}, 3: {}}
    for count, found in rewards.items():
        options = {"rewards": terms, "limit": 3, **SMALL}
        with render_agent.VectorEnvironment(count, benchmark, **options) as envs:
            _, infos = envs.reset()
            for _ in range(18 // count):
                turns = [f"{info['question_id']} {info['turn']}" for info in infos]
                *_, infos = envs.step([random_reply(random.Random(turn)) for turn in turns])
                for info in infos:
                    found.setdefault((info["question_id"], info["turn"]), info["rewards"])
    shared = rewards[1].keys() & rewards[3].keys()
    assert len(shared) > 10
    assert all(rewards[1][key] == rewards[3][key] for key in shared)


def test_rewards_are_drawn_in_several_threads_at_once():
    """Two episodes are in the renderer at the same time: with a lock around it, the barrier would break."""
    barrier = Barrier(2, timeout=120)

    class Meeting:
        def __init__(self, renderer):
            self.renderer = renderer

        def draw(self, *arguments):
            barrier.wait()
            return self.renderer.draw(*arguments)

    options = {"rewards": {"visible": 1}, "limit": 2, "scene": "room00", **SMALL}
    with render_agent.VectorEnvironment(2, "rooms", **options) as envs:
        envs.reset()
        for env in envs.envs:
            env._objects._renderer = Meeting(env._objects._renderer)
            env._objects._box_indices = env._objects._box_indices or [0]
        assert envs.world.is_parallel
        if envs._pool._max_workers < 2:
            pytest.skip("one core")
        replies = [{"rotation_angle_degrees": 30}, {"rotation_angle_degrees": -30}]
        *_, infos = envs.step(replies)
    assert barrier.broken is False
    assert all("visible" in info["rewards"] for info in infos)


@pytest.mark.slow
def test_example_improves_its_policy(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--episodes", "400"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    words = [line.split() for line in capsys.readouterr().out.splitlines()[-2:]]
    shares = [[float(w.strip("%")) for w in line if w.endswith("%")] for line in words]
    (before, after), (held_before, held_after) = shares
    assert after >= before + 30
    assert held_after > held_before
    assert len(EXAMPLE.read_text().splitlines()) <= 100
