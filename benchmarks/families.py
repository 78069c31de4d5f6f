"""What keeping anything over the turns of a question gains, family by family, against reading everything anew.

    python benchmarks/families.py --output benchmarks/results/families
    python benchmarks/families.py --models qwen3_5 --output benchmarks/results/families

One family takes about a minute and a half of one core, or less; rows of other families that OUTPUT.json holds stay, so
that it can be made family by family. Every model is of its family's real class with random weights: a small one by name, or one of a published shape, from a
folder with a model's files but its weights (`--models DIR,DIR --device cuda`). Replies are given beforehand, so that both
sides do the same work, and the model computes every token of them. Both sides take turns at the same questions in one
run, and their seconds are those of the processor on a CPU, which other work on the machine hardly changes.

read     prompt tokens that were read, over those that stand in no earlier prompt of their dialogue: less than 1 where a
         reply is not read again, or instructions are read once for all
differs  by how much of their range scores with what is kept differ from those of reading anew, at the most (float32)
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import click
import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.dialogue.prompt import Prompt
from render_agent.engines.base import Request
from render_agent.engines.families.registry import family_of
from render_agent.engines.transformers.cache_check import score_difference
from render_agent.engines.transformers.engine import ContinuousEngine
from render_agent.engines.transformers.factory import engine_of
from render_agent.engines.transformers.model.load import open_model
from render_agent_lab.random_models.random_model import FILLER, random_model
from render_agent_lab.random_models.small_families import SMALL_FAMILIES


def picture(file: str) -> Image.Image:
    """Return a picture that its name stands for: its size, and a seed."""
    size, _, seed = file.partition("-")
    width, height = map(int, size.split("x"))
    slope = Image.linear_gradient("L").resize((width, height)).rotate(int(seed) % 360)
    return Image.merge("RGB", [slope, slope.rotate(90), slope.rotate(180)])


class Dialogues:
    """So many dialogues of one to several turns with a view in each; what is said depends on question and turn alone."""

    def __init__(self, count: int, turns: tuple[int, int], reply_words: int, size: str) -> None:
        self.turns = {f"q{n}": Random(n).randint(*turns) for n in range(count)}
        self.reply_words = reply_words
        self.size = size
        self.instructions = chat.message("system", chat.text(Prompt(9, 75.0).instructions))

    def reply(self, request: Request) -> str:
        """Return what the model says in a turn."""
        chance = Random(f"{request.question_id} {request.turn}")
        words = FILLER.split()
        said = [chance.choice(words) for _ in range(chance.randint(1, 2 * self.reply_words))]
        return json.dumps({"reasoning": " ".join(said), "forward_meters": 0.5})

    def lead(self, engine: Any) -> dict[str, int]:
        """Lead all to their ends; return the tokens of prompts, those read, those of no earlier prompt, and written."""
        said: dict[str, list[Any]] = {name: [self.instructions] for name in self.turns}
        turn = dict.fromkeys(self.turns, 0)
        before = dict.fromkeys(self.turns, 0)
        tokens = {"prompt": 0, "read": 0, "new": 0, "written": 0}

        def ask(name: str) -> Request:
            view = chat.picture(f"{self.size}-{Random(f'{name} {turn[name]}').randrange(10**6)}")
            text = chat.text(f"{name}: where is the chair? You moved 0.5 m forward.")
            said[name] = [*said[name], chat.message("user", text, view)]
            return Request(name, turn[name], said[name], picture, max_new_tokens=512)

        engine.submit([ask(name) for name in self.turns])
        left = sum(self.turns.values())
        while left:
            for request, reply in engine.ready():
                if reply.error is not None:
                    raise SystemExit(reply.error)
                name, counted = request.question_id, reply.tokens
                left -= 1
                tokens["prompt"] += counted.prompt
                tokens["read"] += counted.prompt - counted.cached
                tokens["new"] += counted.prompt - before[name]
                tokens["written"] += counted.reply
                before[name] = counted.prompt
                turn[name] += 1
                if turn[name] < self.turns[name]:
                    said[name] = [*said[name], chat.assistant(reply.text)]
                    engine.submit([ask(name)])
                else:
                    engine.retire(name)
        return tokens


def measured(model: Any, dialogues: Dialogues, way: str, rows: int) -> dict[str, Any]:
    """Return what one side took."""
    options = {} if way == "best" else {"reuse": way}
    loaded = open_model("random", pretrained=model, options=options, script=dialogues.reply)
    engine = engine_of(loaded, rows, options, 2000)
    clock = time.perf_counter if model.model.device.type == "cuda" else time.process_time
    began, wall = clock(), time.perf_counter()
    tokens = dialogues.lead(engine)
    seconds, wall = clock() - began, time.perf_counter() - wall
    reuse = engine.describe()["reuse"]
    if isinstance(engine, ContinuousEngine):
        engine.scheduler.close()
    elif engine.vision is not None:
        engine.vision.close()
    return {"reuse": reuse, "seconds": seconds, "wall": wall, **tokens}


def compared(
    name: str, dialogues: Dialogues, rows: int, rounds: int, device: str, dtype: str
) -> dict[str, Any]:
    """Return a row of the table: both sides of one model, each the best of several rounds that take turns."""
    model = random_model(name, device, dtype)
    warm = Dialogues(2, (1, 2), dialogues.reply_words, dialogues.size)
    # Where nothing can be kept, both sides are the same.
    keeps = family_of(model.model.config.model_type).reuse != "recompute"
    sides = ("none", "best") if keeps else ("none",)
    for way in sides:
        measured(model, warm, way, rows)
    trials: dict[str, list[dict[str, Any]]] = {way: [] for way in sides}
    for _ in range(rounds):
        for way in sides:
            trials[way].append(measured(model, dialogues, way, rows))
    anew, best = (
        min(trials[way], key=lambda trial: trial["seconds"]) for way in (sides[0], sides[-1])
    )
    count = len(dialogues.turns)
    found = None
    if best["reuse"] == "keys":
        found, _ = score_difference(open_model("random", pretrained=model))
    return {
        "family": name,
        "view": dialogues.size,
        "questions": count,
        "parameters": sum(weight.numel() for weight in model.model.parameters()),
        "reuse": best["reuse"],
        "questions_an_hour": round(3600 * count / best["seconds"]),
        "questions_an_hour_anew": round(3600 * count / anew["seconds"]),
        "times": anew["seconds"] / best["seconds"] if keeps else None,
        "read": best["read"] / best["new"],
        "read_anew": anew["read"] / anew["new"],
        "differs": found,
        "trials": trials,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| model | views | questions | kept | questions an hour | read anew | times | read | read anew | differs |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        times = "" if row["times"] is None else f"**{row['times']:.1f}**"
        differs = "" if row["differs"] is None else f"{row['differs']:.1e}"
        lines.append(
            f"| {row['family']} | {row['view']} | {row['questions']} | {row['reuse']} | {row['questions_an_hour']:,} |"
            f" {row['questions_an_hour_anew']:,} | {times} | {row['read']:.2f} |"
            f" {row['read_anew']:.2f} | {differs} |"
        )
    return "\n".join(lines)


def merged(output: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the rows that a file has of other families and views, in the order of the table."""
    mine = {(row["family"], row["view"]) for row in record["rows"]}
    before = json.loads(output.read_text("utf-8"))["rows"] if output.is_file() else []
    # Rows without a machine are of an older form, measured otherwise.
    whole = [row for row in before if "machine" in row]
    others = [row for row in whole if (row["family"], row["view"]) not in mine]
    order = {name: place for place, name in enumerate(SMALL_FAMILIES)}
    rows = sorted([*others, *record["rows"]], key=lambda row: order.get(row["family"], len(order)))
    return {**record, "rows": rows}


@click.command()
@click.option("--models", default=",".join(SMALL_FAMILIES), help="Families, or folders.")
@click.option("--questions", default=64)
@click.option("--turns", default="1-9")
@click.option("--reply-words", default=10, help="Words of a reply, on the average.")
@click.option("--view", default="256x192", help="Size of a view in pixels.")
@click.option("--rows", default=16, help="Dialogues side by side, on both sides.")
@click.option("--rounds", default=1, help="The best of so many rounds counts.")
@click.option("--device", default="cpu")
@click.option("--dtype", default="auto")
@click.option("--output", help="Write OUTPUT.json and OUTPUT.md.")
def main(
    models: str,
    questions: int,
    turns: str,
    reply_words: int,
    view: str,
    rows: int,
    rounds: int,
    device: str,
    dtype: str,
    output: str | None,
) -> None:
    """Measure every family with what is kept, and with nothing."""
    torch.set_num_threads(1)
    least, _, most = turns.partition("-")
    dialogues = Dialogues(questions, (int(least), int(most or least)), reply_words, view)
    machine = {
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "command": " ".join(["python", "benchmarks/families.py", *sys.argv[1:]]),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu, 1 thread",
        "load_before": os.getloadavg()[0],
        **{name: version(name) for name in ("torch", "transformers")},
    }
    found: list[dict[str, Any]] = []
    for name in models.split(","):
        found.append({**compared(name, dialogues, rows, rounds, device, dtype), "machine": machine})
        click.echo(table(found[-1:]).splitlines()[-1], err=True)
        if output:
            file = Path(f"{output}.json")
            record = merged(file, {"turns": sum(dialogues.turns.values()), "rows": found})
            file.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
            Path(f"{output}.md").write_text(page(record), "utf-8")
    click.echo(table(found))


def page(record: dict[str, Any]) -> str:
    """Return the page of the results."""
    rows = record["rows"]
    machines = [row["machine"] for row in rows]
    loads = [machine["load_before"] for machine in machines]
    commands = "\n".join(dict.fromkeys(machine["command"] for machine in machines))
    last = max(machines, key=lambda machine: machine["when"])
    return f"""# What keeping anything over the turns gains, family by family

Dialogues of 1 to 9 turns, a view in each, replies given beforehand; small models of the real classes with random weights in
float32, one thread, {last["cores"]} cores (load {min(loads):.0f} to {max(loads):.0f}): seconds are the processor's. Both sides take turns within one
run, 16 rows each. *read*: prompt tokens that were read, over those that stand in no earlier prompt of their dialogue (less
than 1 where a reply is not read again, or instructions are read once for all). *differs*: the largest difference of scores
from those of reading anew, as a part of their range. Published shapes on a GPU were not measured; a folder with a model's
files but its weights is measured by `--models DIR --device cuda`.

{table(rows)}

```
{commands}
```

{last["when"]}, {last["system"]}, torch {last["torch"]}, transformers {last["transformers"]}
"""


if __name__ == "__main__":
    main()
