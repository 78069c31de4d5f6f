"""A finished run with right, wrong, thinking and unreadable replies, to be handed on."""

import json
from itertools import count
from pathlib import Path

from click.testing import CliRunner

from factories.runs import make_questions, play
from render_agent.cli.main import cli
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine

STEP = json.dumps({"rotation_angle_degrees": 40, "forward_meters": 0.3})
MAP = json.dumps({"view": "top", "forward_meters": 0.2, "reasoning": "<|im_end|> is no token here"})
REPLIES = {
    "0": [STEP, "<think>Three, I think.</think>" + json.dumps({"answer": 3, "done": True})],
    "1": [MAP, "no JSON at all", json.dumps({"answer": "B", "done": True})],
    "2": [STEP, MAP, json.dumps({"answer": 4, "done": True})],
    "3": [json.dumps({"answer": "A", "done": True})],
}
"""Questions 0 and 1 are right, 2 scores 0.4 at most, 3 is wrong."""

RIGHT = ["0", "1"]

NUMBERS = count()


def make_run(folder: Path, **options) -> Path:
    """Play the four questions to their end and return the run folder."""
    path, _ = play(
        folder, make_questions(folder, 4), ScriptedEngine(ReplayPolicy(REPLIES), 64), **options
    )
    # by its own name, as two that begin in the same second in two folders have the same one
    return path.rename(path.with_name(f"run_{next(NUMBERS)}"))


def export(*words: object) -> str:
    """Run the command and return what it printed; whatever goes wrong is raised."""
    return CliRunner().invoke(cli, ["export", *map(str, words)], catch_exceptions=False).output


def json_lines(file: Path) -> list[dict]:
    """Return what a file of JSON lines holds."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
