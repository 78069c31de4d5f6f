"""Train a policy of four weights to turn to the view of a target image, by policy gradient, on a CPU within minutes.

    python train_reach_view.py

The policy turns on the spot and decides after each turn whether it sees the target, from the correlation of the two
images. Training finds out which correlation is enough. It prints the share of targets reached before and after training,
for targets that were trained on and for others.
"""

import argparse

import numpy as np

import render_agent

TURN = {"rotation_angle_degrees": 40}
DONE = {"answer": None, "done": True}
REWARDS = {"success": 1.0, "angle": 0.2}
NUM_HELD_OUT = 5  # targets that training does not use
MAX_SHIFT = 4  # columns of a coarse image


def coarse(image):
    """Return an image in grey, 12 x 16, with mean 0 and standard deviation 1."""
    grey = np.asarray(image, float).mean(axis=2)
    blocks = grey.reshape(12, grey.shape[0] // 12, 16, grey.shape[1] // 16).mean(axis=(1, 3))
    return (blocks - blocks.mean()) / (blocks.std() + 1e-6)


def similarity(view, target):
    """Return the largest correlation of two coarse images over horizontal shifts."""
    return max(
        float((view[:, max(0, s) : 16 + min(0, s)] * target[:, max(0, -s) : 16 - max(0, s)]).mean())
        for s in range(-MAX_SHIFT, MAX_SHIFT + 1)
    )


def play(env, question, weights, rng=None):
    """Play an episode, greedily if `rng` is None. Return its return, its success, and the gradient of its log-probability."""
    observation, info = env.reset(options={"id": question})
    pieces = observation["messages"][-1]["content"]
    target = coarse(next(piece["image"] for piece in pieces if piece["type"] == "image"))
    gradient, is_over, best = np.zeros(len(weights)), False, -1.0
    while not is_over:
        score = similarity(coarse(observation["image"]), target)
        features = np.array([1.0, score, score - best, info["turn"] / 9])
        best = max(best, score)
        probability = 1 / (1 + np.exp(-weights @ features))
        stops = probability > 0.5 if rng is None else rng.random() < probability
        gradient += (float(stops) - probability) * features
        observation, _, is_done, is_out, info = env.step(DONE if stops else TURN)
        is_over = is_done or is_out
    return sum(info["returns"].values()), info["returns"]["success"], gradient


def evaluate(env, questions, weights):
    """Return the share of targets that the greedy policy reaches."""
    return float(np.mean([play(env, question, weights)[1] for question in questions]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=800)
    parser.add_argument("--benchmark", default="views", help="question file of make-views")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    env = render_agent.Environment.from_benchmark(
        arguments.benchmark,
        type="reach_view_rotation",
        rewards=REWARDS,
        view_types=("ego",),
        image_size=(96, 72),
    )
    questions = [question.id for question in env.world.questions]
    train, held_out = questions[:-NUM_HELD_OUT], questions[-NUM_HELD_OUT:]
    rng, weights, average = np.random.default_rng(arguments.seed), np.zeros(4), 0.0
    names = {"trained on": train, "held out": held_out}
    before = {name: evaluate(env, ids, weights) for name, ids in names.items()}
    for episode in range(arguments.episodes):
        total, _, gradient = play(env, train[rng.integers(len(train))], weights, rng)
        weights += 1.0 * (total - average) * gradient
        average += 0.05 * (total - average)
        if episode % 100 == 99:
            print(f"episode {episode + 1}: mean return {average:.2f}, weights {weights.round(2)}")
    for name, ids in names.items():
        print(
            f"{name}: {before[name]:.0%} of targets reached before, {evaluate(env, ids, weights):.0%} after"
        )


if __name__ == "__main__":
    main()
