"""A complete run with correct, wrong, thinking and unreadable replies, for export tests."""

import csv
import json
from itertools import count
from pathlib import Path

from click.testing import CliRunner

from factories.runs import make_questions, play
from render_agent.cli.main import cli
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine

STEP = json.dumps({"rotation_angle_degrees": 40, "forward_meters": 0.3})
MAP = json.dumps({"view": "top", "forward_meters": 0.2, "reasoning": "<|im_end|> is no token here"})
# Questions 0 and 1 are correct, 2 scores at most 0.4, 3 is wrong.
REPLIES = {
    "0": [STEP, "<think>Three, I think.</think>" + json.dumps({"answer": 3, "done": True})],
    "1": [MAP, "no JSON at all", json.dumps({"answer": "B", "done": True})],
    "2": [STEP, MAP, json.dumps({"answer": 4, "done": True})],
    "3": [json.dumps({"answer": "A", "done": True})],
}

RIGHT = ["0", "1"]

_run_numbers = count()


def make_run(folder: Path, **options) -> Path:
    """Run the four questions and return the run folder."""
    path, _ = play(
        folder, make_questions(folder, 4), ScriptedEngine(ReplayPolicy(REPLIES), 64), **options
    )
    # A unique name: runs that start in the same second in different folders have the same default name.
    return path.rename(path.with_name(f"run_{next(_run_numbers)}"))


def export(*words: object) -> str:
    """Run `render-agent export`, and return its output; exceptions propagate."""
    return CliRunner().invoke(cli, ["export", *map(str, words)], catch_exceptions=False).output


def read_csv(file: Path) -> list[dict[str, str]]:
    """Parse a CSV file."""
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def json_lines(file: Path) -> list[dict]:
    """Parse a JSON-lines file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
