"""Small real runs with a scripted engine, and the parts that must be equal between runs."""

import json
import shutil
from pathlib import Path

from factories.mapper_policy import empty_belief
from factories.scenes import room, write_ply
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.options import RunConfig
from render_agent.runs.build import make_engine
from render_agent.runs.phase_controller import NullObserver
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

# Options of a fast run.
SMALL = {"image_size": (96, 72), "engine": "scripted", "start": "middle"}

# Policy file of probed runs; the named policies have no beliefs.
MAPPER = str(Path(__file__).with_name("mapper_policy.py"))


def make_questions(folder: Path, count: int = 4) -> Path:
    """Write a scan and `count` questions about it; return the question file."""
    write_ply(folder / "room.ply", *room())
    rows = []
    for number in range(count):
        choice = number % 2
        rows.append(
            {
                "id": number,
                "dataset": "rooms",
                "scene_name": "room",
                "question_type": "object_rel_direction_easy" if choice else "object_counting",
                "question": "Is the red box left or right?"
                if choice
                else "How many box(s) are in this room?",
                "options": ["A. left", "B. right"] if choice else None,
                "ground_truth": "B" if choice else "3",
            }
        )
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def spread_over_rooms(questions: Path, count: int) -> Path:
    """Distribute the questions over `count` copies of the scan; return the question file."""
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    for row in rows:
        row["scene_name"] = f"room{row['id'] % count}"
        shutil.copy(
            questions.with_name("room.ply"), questions.with_name(f"{row['scene_name']}.ply")
        )
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return questions


def make_config(folder: Path, questions: Path, **options) -> RunConfig:
    """Return the options of a small run below `folder`/runs."""
    defaults = {"batch": True, "benchmark": str(questions), "output": str(folder / "runs")}
    if options.get("probe"):
        defaults["model"] = MAPPER
    return RunConfig(**defaults | SMALL | options)


def transcripts(path: Path) -> dict[str, list[dict]]:
    """Return the turns of every question without times, batch sizes and cached tokens, which may differ."""
    fields = "turn views messages reply action happened stood camera tokens finish".split()
    found: dict[str, list[dict]] = {}
    for line in RunData(path).lines():
        if line["error"] is None:
            turn = {name: line[name] for name in fields} | {"outcome": line.get("outcome")}
            turn["tokens"] = {name: line["tokens"][name] for name in ("in", "out")}
            found.setdefault(line["question_id"], []).append(turn)
    return found


def evidence_by_turn(path: Path) -> dict[tuple[str, int], dict]:
    """Return the evidence of all turns without the number of calls, which depends on batching."""
    return {
        (line["question_id"], line["turn"]): line["evidence"] | {"calls": None}
        for line in RunData(path).lines()
        if line.get("evidence")
    }


def images(path: Path) -> dict[str, bytes]:
    """Return the contents of a run's images by file."""
    return {
        str(file.relative_to(path)): file.read_bytes() for file in (path / "views").rglob("*.png")
    }


def comparable_results(path: Path) -> dict:
    """Return the results of a run without times and cache statistics, which may differ between equal runs."""
    results = RunData(path).saved_results
    return {name: value for name, value in results.items() if name not in ("totals", "reuse")}


STEP = json.dumps({"rotation_angle_degrees": 30, "forward_meters": 0.3})


def finish_run(run, make_engine=make_engine):
    """Complete and close a run; return the results."""
    try:
        return run.go(NullObserver(), make_engine)
    finally:
        run.close()


def play(folder, questions, engine, **options):
    """Run the questions with this engine; return the run folder and the results."""
    run = start_run(make_config(folder, questions, **options))
    results = finish_run(run, lambda config, questions: engine)
    return run.path, results


def truncate_log(path: Path, lines: int):
    """Truncate the log of a run to its first `lines` lines, as if the run had been killed."""
    remaining = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)[:lines]
    (path / "turns.jsonl").write_bytes(b"".join(remaining))
    for name in ("results.json", "results.csv"):
        (path / name).unlink(missing_ok=True)


def resume(path: Path, engine=None, *, allow_code=False, **changes):
    """Resume and complete a run, with `engine` or its saved one; return the results."""
    run = resume_run(RunData(path), changes, allow_code=allow_code)
    return finish_run(run, (lambda config, questions: engine) if engine else make_engine)


def walking_engine(count, turns=3, batch_size=64):
    """Return an engine that walks in question i for i % turns + 1 turns, then answers."""
    replies = {}
    for number in range(count):
        step = {
            "rotation_angle_degrees": 20 * number,
            "forward_meters": 0.2,
            "view": ["ego", "top"][number % 2],
        }
        done = json.dumps({"answer": "A" if number % 2 else "4", "done": True})
        replies[str(number)] = [json.dumps(step)] * (number % turns + 1) + [done]
    policy = ReplayPolicy({"*": ["?"]} | replies)
    policy.believe = empty_belief
    return ScriptedEngine(policy, batch_size)
