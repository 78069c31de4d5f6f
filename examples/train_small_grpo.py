"""Train the bundled small model with TRL's GRPO in an environment, on a CPU.

    pip install trl datasets matplotlib
    python train_small_grpo.py --minutes 10
    python train_small_grpo.py --minutes 10 --resume

Each prompt is the first turn of a dialogue that shows the start view and must answer at once. GRPO samples a group of
replies to it; the environment scores each of them. The model usually replies under guided decoding; here it also has to
learn the form of a reply, so unreadable replies are penalised. Ten minutes on two cores are a few dozen steps: enough to
see the reward rise, not to answer better. The curve is saved as `grpo.csv` and `grpo.png`.
"""

import argparse
import csv
import time
from pathlib import Path

import torch

import render_agent
from render_agent.engines.bundled_models import bundled_model
from render_agent.engines.checkpoint.pretrained import OFFLINE, WEIGHTS
from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

GROUP = 8  # replies per prompt
MAX_REPLY_TOKENS = 64


def rows(env):
    """Return one row per question: the messages, their images and the question's id."""
    for question in env.world.questions:
        messages = env.reset(options={"id": question.id})[0]["messages"]
        images = [p["image"] for m in messages for p in m["content"] if p["type"] == "image"]
        for message in messages:
            message["content"] = [
                {"type": "image"} if piece["type"] == "image" else piece
                for piece in message["content"]
            ]
        yield {"prompt": messages, "images": images, "question": question.id}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--steps", type=int, default=1000, help="stop after this many steps")
    parser.add_argument("--benchmark", default="rooms")
    parser.add_argument("--output", type=Path, default=Path("grpo"))
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    arguments = parser.parse_args()
    patch_torchvision()
    torch.set_num_threads(1)  # so small a model is slower with more
    from datasets import Dataset
    from transformers import AutoModelForImageTextToText, AutoProcessor, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    env = render_agent.Environment.from_benchmark(
        arguments.benchmark,
        model="small",
        views="start",
        max_turns=1,
        image_size=(160, 120),
        rewards={"answer": 1, "malformed": -0.5},
    )

    def reward(completions, question, **_):
        rewards = []
        for completion, name in zip(completions, question, strict=True):
            env.reset(options={"id": name})
            rewards.append(env.step(completion[0]["content"])[1])
        return rewards

    class StopAfter(TrainerCallback):
        """Stops the training, with a checkpoint, when the time is over."""

        def on_train_begin(self, args, state, control, **_):
            self.end = time.monotonic() + 60 * arguments.minutes

        def on_step_end(self, args, state, control, **_):
            if time.monotonic() > self.end:
                control.should_save = control.should_training_stop = True

    folder = bundled_model("small")
    trainer = GRPOTrainer(
        model=AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, **WEIGHTS),
        processing_class=AutoProcessor.from_pretrained(folder, **OFFLINE),
        reward_funcs=reward,
        train_dataset=Dataset.from_list(list(rows(env))),
        callbacks=[StopAfter()],
        args=GRPOConfig(
            output_dir=str(arguments.output),
            per_device_train_batch_size=GROUP,
            num_generations=GROUP,
            max_completion_length=MAX_REPLY_TOKENS,
            max_steps=arguments.steps,
            learning_rate=3e-5,
            lr_scheduler_type="constant",
            gradient_checkpointing=False,  # it would disable the KV cache while sampling
            logging_steps=1,
            save_steps=10,
            save_total_limit=1,
            report_to=[],
            use_cpu=True,
            bf16=False,
            seed=0,
        ),
    )
    trainer.train(resume_from_checkpoint=arguments.resume or None)
    env.close()
    curve = [(e["step"], e["reward"]) for e in trainer.state.log_history if "reward" in e]
    write_curve(arguments.output, curve)
    first, last = mean(curve[:10]), mean(curve[-10:])
    print(f"{len(curve)} steps; mean reward {first:.2f} in the first ten, {last:.2f} in the last")


def mean(curve):
    return sum(reward for _, reward in curve) / len(curve)


def write_curve(folder, curve):
    """Write the reward of every step as CSV, and with its running mean as a plot."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with (folder / "grpo.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("step", "reward"), *curve])
    steps = [step for step, _ in curve]
    pyplot.plot(steps, [reward for _, reward in curve], ".", alpha=0.4, label="step")
    running = [mean(curve[max(0, n - 9) : n + 1]) for n in range(len(curve))]
    pyplot.plot(steps, running, label="mean of 10 steps")
    pyplot.gca().set(xlabel="step", ylabel="mean reward of the group")
    pyplot.legend()
    pyplot.savefig(folder / "grpo.png", dpi=120)


if __name__ == "__main__":
    main()
