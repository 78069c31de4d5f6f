"""An episode equals the dialogue of a run, and the ground truth is hidden until its end."""

import gc
import json
import random
from itertools import pairwise

import numpy as np
import pytest
from conftest import mostly_slow

import render_agent
from render_agent.environments.rewards import TERMS
from render_agent.environments.world import IDLE_OPTIONS
from render_agent.errors import UsageError
from render_agent.options import OPTIONS
from render_agent.runs.read import RunData
from render_agent.util.coroutines import run_in_thread

SMALL = {"image_size": "96x72", "max_turns": 4}

ROOM = render_agent.bundled_rooms()["room00"]

REPLIES = [
    {"rotation_angle_degrees": 90},
    {"forward_meters": 5, "reasoning": "too far"},
    {"view": "around", "answer": "A"},
    {"view": "top"},
    {"view": 0},
    {"look_at": [0.5, 0.5, 1.0], "left_meters": -0.5},
    {"measure": [{"view": 1, "pixel": [40, 50]}]},
    {"answer": "2", "done": True},
    {"done": True},
    "I would look to the left.",
    '{"rotation_angle_degrees": "far"',
]


class Policy:
    """Replies with a choice that depends on the question and the turn only."""

    def text(self, question_id, turn, *, probe=False):
        chance = random.Random(f"{question_id} {turn} {probe}")
        if probe:
            place = [chance.uniform(0, 4), chance.uniform(0, 4)]
            return json.dumps({"objects": [{"category": "chair", "position": place}]})
        reply = chance.choice(REPLIES)
        return reply if isinstance(reply, str) else json.dumps(reply)

    def reply(self, request):
        return self.text(request.question_id, request.turn)

    def believe(self, request):
        return self.text(request.question_id, request.turn, probe=True)


def finish(env, observation, info):
    """Let the policy finish an episode; return the observations with their `info`, and the rewards."""
    steps, rewards = [(observation, info)], []
    is_over = False
    while not is_over:
        text = Policy().text(info["question_id"], info["turn"], probe=info["probe"])
        observation, reward, terminated, truncated, info = env.step(text)
        steps.append((observation, info))
        rewards.append(reward)
        is_over = terminated or truncated
    return steps, rewards


def without_costs(entries):
    return {n: v for n, v in entries.items() if n not in ("tokens", "seconds", "batch_size")}


def lines(path):
    """Return the lines of a log by question and turn, without tokens, times and batches."""
    result = {}
    for line in RunData(path).lines():
        for name in {"probe", "restated"} & line.keys():
            line[name] = without_costs(line[name])
        result[line["question_id"], line["turn"]] = without_costs(line)
    return result


def rows(run):
    """Return the rows of the results without tokens."""
    return [
        {name: value for name, value in row.items() if not name.startswith("tokens")}
        for row in run.results["questions"]
    ]


KINDS = {
    "free": {},
    "batched": {"max_batched_turns": 2},
    "tour": {"views": "tour"},
    "random walk": {"views": "random-walk"},
    "start": {"views": "start"},
    "four": {"views": "four"},
    "blind": {"views": "none"},
    "measuring": {"tools": "measure"},
    "graph": {"tools": "graph"},
    "map probe": {"probe": ("map", "counts", "pose")},
    "mirrored": {"image_stress": "mirrored"},
    "noise": {"image_stress": "noise"},
    "changed": {"change": ("move",)},
    "middle": {"start": "middle", "view_types": ("ego",)},
    "small's wording": {"model": "small"},
}


# The others take the same steps; what differs is tested in tests/views.
QUICK_KINDS = ("free", "tour", "graph", "map probe", "mirrored", "small's wording")


@pytest.mark.parametrize("kind", mostly_slow(KINDS, *QUICK_KINDS))
def test_episode_equals_the_dialogue_of_a_run(kind, tmp_path):
    options = {"limit": 2, "shuffle": True, **SMALL, **KINDS[kind]}
    model = options.pop("model", None)
    with render_agent.Environment.from_benchmark(
        "rooms", record=tmp_path / "episodes", model=model, **options
    ) as env:
        episodes = [finish(env, *env.reset()) for _ in env.world.questions]
        (folder,) = env.world.recorder.paths
    if model is not None:  # the policy cannot replace a model in a run; the wording is the model's
        assert RunData(folder).record["wording"]["model"] == model
        return
    run = render_agent.run(benchmark="rooms", engine=Policy(), output=tmp_path / "runs", **options)
    assert lines(folder) == lines(run.path)
    recorded, expected = RunData(folder), RunData(run.path)
    assert rows(recorded) == rows(expected)
    scores = {q.id: expected.rows[q.id].score for q in expected.questions}
    for steps, rewards in episodes:
        assert sum(rewards) == pytest.approx(scores[steps[0][1]["question_id"]] or 0.0)
    for image in sorted(run.path.glob("views/**/*.png")):
        assert (folder / image.relative_to(run.path)).read_bytes() == image.read_bytes()


def test_conversation_grows_by_the_reply_and_the_new_messages():
    with render_agent.Environment.from_benchmark("rooms", limit=1, **SMALL) as env:
        steps, _ = finish(env, *env.reset())
    for (before, _), (after, _) in pairwise(steps):
        length = len(before["conversation"])
        assert after["conversation"][:length] == before["conversation"]
        assert after["conversation"][length]["role"] == "assistant"
        assert after["conversation"][length + 1 :] == after["messages"]


def test_changing_an_observation_does_not_change_the_episode():
    with render_agent.Environment.from_benchmark("rooms", limit=1, **SMALL) as env:
        expected, _ = env.reset()
        observation, _ = env.reset()
        for message in observation["conversation"]:
            for piece in message["content"]:
                if piece["type"] == "image":
                    piece["image"].paste(0, (0, 0, 10, 10))
                piece |= {"text": "changed"}
        observation["image"][:] = 0
        later, _, *_ = env.step({"rotation_angle_degrees": 10})
    assert later["conversation"][: len(expected["conversation"])] == expected["conversation"]


def test_request_to_restate_the_answer_is_a_step_of_the_last_turn(tmp_path):
    replies = ["hm", '{"answer": "four, or five", "done": true}', "4"]
    rewards = {"answer": 1.0, "turn": -0.25, "malformed": -0.5}
    for is_asked in (True, False):
        with render_agent.Environment(
            render_agent.bundled_rooms()["room00"],
            "How many chairs are there?",
            ground_truth=4,
            record=tmp_path,
            rewards=rewards,
            no_restate=not is_asked,
            **SMALL | {"max_turns": 2},
        ) as env:
            _, info = env.reset()
            results = [env.step(reply) for reply in replies[: 2 + is_asked]]
            folder = env.world.recorder.paths[-1]
        observation, reward, terminated, truncated, info = results[-1]
        assert (terminated, truncated) == (is_asked, not is_asked)
        assert (info.get("answer"), info["turn"]) == ("4" if is_asked else None, 2)
        assert info["returns"] == {"answer": float(is_asked), "turn": -0.5, "malformed": -1.0}
        assert sum(step[1] for step in results) == is_asked - 1.5
        malformed = ["malformed" in step[-1] for step in results]
        assert malformed == ([True, False, True] if is_asked else [True, True])
        turn = RunData(folder).states[0].turns[-1]
        assert (turn.restated is not None) == is_asked
        if is_asked:
            observation, reward, terminated, truncated, info = results[1]
            assert (reward, terminated, truncated) == (0.0, False, False)
            assert info["restates"]
            assert observation["messages"] == list(turn.restated.messages)
        assert not results[0][-1]["restates"]
        assert not results[-1][-1]["restates"]


def test_ground_truth_is_hidden_until_the_episode_ends(tmp_path):
    secret = "a most secret sofa"
    with render_agent.Environment(
        render_agent.bundled_rooms()["room00"],
        "What stands by the wall?",
        ground_truth=secret,
        record=tmp_path,
        rewards=dict.fromkeys(["answer", "malformed", "blocked", "turn"], 1.0),
        **SMALL,
    ) as env:
        steps, _ = finish(env, *env.reset())
    *earlier, (_, last) = [(repr(observation), info) for observation, info in steps]
    assert last["ground_truth"] == secret
    assert all(secret not in text and secret not in repr(info) for text, info in earlier)


def test_vector_environment_gives_the_episodes_of_single_ones():
    options = {"limit": 5, **SMALL, "probe": ("map",)}

    def last_message(observation):
        return repr(observation["conversation"][-1]).split(" at 0x")[0]

    expected = {}
    with render_agent.Environment.from_benchmark("rooms", **options) as env:
        for _ in env.world.questions:
            steps, rewards = finish(env, *env.reset())
            messages = [last_message(observation) for observation, _ in steps]
            expected[steps[0][1]["question_id"]] = messages, rewards
    finished = {}
    with render_agent.VectorEnvironment(3, "rooms", **options) as envs:
        observations, infos = envs.reset()
        episodes = [([last_message(observation)], []) for observation in observations]
        is_over = np.zeros(3, bool)
        while len(finished) < 5:
            ids = [info["question_id"] for info in infos]
            replies = [
                Policy().text(info["question_id"], info["turn"], probe=info["probe"])
                for info in infos
            ]
            observations, rewards, terminated, truncated, infos = envs.step(replies)
            for n in range(3):
                if is_over[n]:
                    episodes[n] = ([], [])
                else:
                    episodes[n][1].append(rewards[n])
                episodes[n][0].append(last_message(observations[n]))
                if terminated[n] or truncated[n]:
                    finished.setdefault(ids[n], episodes[n])
            is_over = terminated | truncated
    assert finished == expected


def test_same_seed_gives_the_same_episodes():
    with render_agent.Environment.from_benchmark("rooms", limit=8, **SMALL) as env:
        orders = []
        for seed in (1, 1, 2):
            infos = [env.reset(seed=seed)[1], *(env.reset()[1] for _ in range(7))]
            orders.append([info["question_id"] for info in infos])
        assert orders[0] == orders[1] != orders[2]
        assert all(len(set(order)) == 8 for order in orders)  # each question once
        assert env.reset(options={"id": orders[0][3]})[1]["question_id"] == orders[0][3]


def test_repeated_question_starts_another_run_folder(tmp_path):
    with render_agent.Environment.from_benchmark("rooms", limit=2, record=tmp_path, **SMALL) as env:
        for _ in range(5):
            finish(env, *env.reset())
        env.reset()
        env.step("{}")  # not finished
        paths = env.world.recorder.paths
    runs = [RunData(path) for path in paths]
    assert [len(run.questions) for run in runs] == [2, 2, 2]
    assert all(run.finished for run in runs)  # recordings are not resumed
    assert [run.saved_results["counts"]["active"] for run in runs] == [0, 0, 1]
    assert runs[-1].saved_results["status"] == "partial"
    assert len(render_agent.load_run(paths[0]).questions) == 2


def test_recording_of_some_questions_is_completed_without_close(tmp_path):
    env = render_agent.Environment.from_benchmark("rooms", limit=3, record=tmp_path, **SMALL)
    finish(env, *env.reset(options={"id": "1"}))
    (path,) = env.world.recorder.paths
    assert not RunData(path).finished
    del env
    gc.collect()
    run = RunData(path)
    assert run.finished
    assert [question.id for question in run.questions] == ["1"]
    assert run.changed_questions is None


def test_unknown_options_of_reset_are_named():
    with (
        render_agent.Environment.from_benchmark("rooms", limit=1, **SMALL) as env,
        pytest.raises(UsageError, match="split"),
    ):
        env.reset(options={"split": "train"})


def test_rewards_are_weighted_sums_of_terms_within_their_ranges():
    weights = {name: 0.5 for name, term in TERMS.items() if not term.needs_target}
    with render_agent.Environment.from_benchmark(
        "rooms", limit=4, rewards=weights, probe=("map",), **SMALL
    ) as env:
        for _ in range(4):
            steps, rewards = finish(env, *env.reset())
            infos = [info for _, info in steps[1:]]
            assert not any(
                {"malformed", "outcome"} & info.keys() for info in infos if info["probe"]
            )
            assert rewards == pytest.approx([sum(info["rewards"].values()) for info in infos])
            assert all(0 <= v <= 0.5 for info in infos for v in info["rewards"].values())
            returns = infos[-1]["returns"]
            assert returns["newly_visible"] <= 0.5
            assert returns["turn"] == 0.5 * env.state.turns[-1].number + 0.5


def test_reward_terms_of_known_replies():
    room = render_agent.bundled_rooms()["room00"]
    with render_agent.Environment(
        room,
        "How many chairs are there?",
        ground_truth=4,
        rewards={"answer": 1, "malformed": -1, "blocked": -0.1, "turn": -0.01},
    ) as env:
        env.reset()
        assert env.step("hm")[1] == pytest.approx(-1.01)
        info = env.step({"forward_meters": 2, "rotation_angle_degrees": 90})[4]
        assert info["rewards"]["blocked"] == -0.1
        _, reward, terminated, truncated, info = env.step({"answer": 4, "done": True})
        assert (reward, terminated, truncated, info["status"]) == (0.99, True, False, "answered")


@pytest.mark.parametrize(
    ("fields", "plain"),
    [
        ({"rotation_angle_degrees": np.float32(20)}, {"rotation_angle_degrees": 20.0}),
        ({"look_at": np.array([1.0, 2, 1])}, {"look_at": [1.0, 2.0, 1.0]}),
        ({"answer": np.int64(4), "done": np.bool_(True)}, {"answer": 4, "done": True}),
    ],
)
def test_values_of_numpy_are_accepted_in_replies(fields, plain):
    with render_agent.Environment(ROOM, "How many chairs?", **SMALL) as env:
        env.reset()
        assert "malformed" not in env.step(fields)[4]
        assert json.loads(env.state.turns[0].reply) == plain


@pytest.mark.parametrize("reply", [35, None, [1], b"35", {"answer": object()}])
def test_replies_that_are_neither_text_nor_json_are_refused(reply):
    with render_agent.Environment(ROOM, "How many chairs?", **SMALL) as env:
        env.reset()
        with pytest.raises(UsageError, match="the reply"):
            env.step(reply)


@pytest.mark.parametrize(
    ("given", "stored"),
    [(12.3456789, "12.3456789"), (4.0, "4"), (np.int64(-3), "-3"), ("4 chairs", "4 chairs")],
)
def test_ground_truth_keeps_its_digits(given, stored):
    with render_agent.Environment(ROOM, "How many?", ground_truth=given, **SMALL) as env:
        assert env.world.questions[0].ground_truth == stored


@pytest.mark.parametrize("given", [float("nan"), float("inf"), True, [1]])
def test_ground_truth_that_is_no_answer_is_refused(given):
    with pytest.raises(UsageError, match="ground truth"):
        render_agent.Environment(ROOM, "How many?", ground_truth=given, **SMALL)


@pytest.mark.parametrize(
    "rewards",
    [{"answer": "1"}, {"answer": float("nan")}, {"answer": None}, {"answers": 1}, ["answer"]],
)
def test_rewards_are_checked_at_construction(rewards):
    with pytest.raises(UsageError, match="answer"):
        render_agent.Environment(ROOM, "How many?", rewards=rewards, **SMALL)


@pytest.mark.parametrize("name", sorted(IDLE_OPTIONS - {"model"}))
def test_options_without_effect_are_refused(name):
    with pytest.raises(UsageError, match=name):
        render_agent.Environment.from_benchmark(
            "rooms", limit=1, **{name: OPTIONS[name].default or "1"}
        )


def test_options_that_select_questions_are_refused_for_one_question():
    for name in ("limit", "scene", "shard", "change", "benchmark"):
        with pytest.raises(UsageError, match=name):
            render_agent.Environment(ROOM, "How many?", **{name: "1"})


def test_closed_environment_is_refused():
    single = render_agent.Environment(ROOM, "How many?", **SMALL)
    several = render_agent.VectorEnvironment(2, "rooms", limit=2, **SMALL)
    for env in (single, several):
        env.reset()
        env.close()
        env.close()
        with pytest.raises(UsageError, match="closed"):
            env.reset()


def test_missing_reply_is_not_replaced():
    with render_agent.VectorEnvironment(2, "rooms", limit=2, **SMALL) as envs:
        envs.reset()
        with pytest.raises(UsageError, match="environment 1"):
            envs.step([{"answer": "2", "done": True}, None])
        assert envs.step([{"answer": "2", "done": True}, {}])[2].tolist() == [True, False]
        envs.step([None, {}])  # the first starts its next episode


def test_unanswered_episode_is_truncated():
    with render_agent.Environment(
        render_agent.bundled_rooms()["room00"], "How many chairs?", ground_truth=3, max_turns=2
    ) as env:
        env.reset()
        assert env.step({"rotation_angle_degrees": 10})[2:4] == (False, False)
        assert env.step({"rotation_angle_degrees": 10})[1:4] == (0.0, False, False)
        assert env.step("I cannot tell.")[1:4] == (0.0, False, True)  # the restated answer
        with pytest.raises(UsageError):
            env.step("{}")


def test_unsupported_options_and_unknown_questions_are_refused():
    make = render_agent.Environment.from_benchmark
    for options in (
        {"agent": "vote:3", "temperature": 1.0},
        {"workers": 2},
        {"rewards": {"ansver": 1}},
        {"rewards": {"map_error": 1}},
        {"views": "none", "rewards": {"visible": 1}},
    ):
        with pytest.raises(UsageError):
            make("rooms", limit=1, **options)
    env = make("rooms", limit=1)
    with pytest.raises(UsageError):
        env.step("{}")
    with pytest.raises(UsageError):
        env.reset(options={"id": "none of these"})


def test_agent_is_refused_whatever_its_temperature():
    with pytest.raises(UsageError) as refusal:
        render_agent.Environment.from_benchmark("rooms", limit=1, agent="vote:3")
    assert "temperature" not in str(refusal.value)


def test_async_methods_play_an_episode():
    async def play():
        env = render_agent.Environment.from_benchmark("rooms", limit=1, **SMALL)
        _, info = await env.areset()
        result = await env.astep({"answer": "1", "done": True})
        env.close()
        return info, result

    info, (_, _, terminated, _, last) = run_in_thread(play())
    assert terminated
    assert last["question_id"] == info["question_id"]
