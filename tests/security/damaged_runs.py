"""Run folders damaged anywhere, read by every command that reads runs, in this process: each ends in a sentence.

    python tests/security/damaged_runs.py --seconds 300 --seed 1 --output FILE.json

A value of `config.json`, `results.json`, a question or a turn is taken away or made odd: no number, a number of 400 digits,
half a character, another type, lists in lists, the same name twice. What ends in a traceback is told with its damage.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

GONE = object()

ODD = [
    GONE, None, True, -1, 0, 1e308, float("nan"), float("inf"), 10**400, 2**63, "", "x", "\ud800", "../../etc/passwd",
    "\x1b[31m", "a" * 5000, [], [[]], {}, {"a": {}}, [None], [1e308] * 3, {"\ud800": 1},
]  # fmt: skip

FILES = ("config.json", "results.json", "questions.jsonl", "turns.jsonl", "turns.jsonl")

MOST_SECONDS = 300
"""Of one command, on a machine that others use."""

RUNS = (
    ("--limit", "2", "--probe", "map,counts,pose,seen"),
    ("--limit", "2", "--seed", "1", "--probe", "map"),
    ("--limit", "4", "--change", "remove:chair", "--change", "letters"),
    ("--limit", "4", "--shard", "1/1"),
)
"""The options of the runs that are read; the first and the third are damaged."""

EXPORTS = ("messages", "pairs", "csv", "turns-csv")


def commands(runs: list[str], out: str) -> list[list[str]]:
    """Return the words of every command that reads runs."""
    first, other, pairs, shard = runs
    given = [
        ["ls"], ["ls", "--json"], ["show", first], ["show", first, "0"], ["compare", first, other],
        ["compare", first, other, "--json", "--anyway"], ["compare", first, pairs, "--anyway"], ["merge", first, other],
        ["merge", shard], ["power", first, "--difference", "5"], ["diagnose", first], ["rescore", first],
        ["rescore", pairs], ["report", first, "--processes", "1"], ["bundle", pairs, "--to", f"{out}.zip"],
    ]  # fmt: skip
    exports = [
        ["export", first, other, "--format", form, "--to", f"{out}-{form}", "--force"]
        for form in EXPORTS
    ]
    return given + exports


def places(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give where something stands in a tree, of lists the first four entries."""
    yield at
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree[:4]) if isinstance(tree, list) else ()  # fmt: skip
    for name, below in entries:
        yield from places(below, (*at, name))


def changed(tree: Any, at: tuple[Any, ...], value: object) -> Any:
    """Return a tree with another value at a place, or without what stands there."""
    if not at:
        return None if value is GONE else value
    made = type(tree)(tree)
    if value is GONE and len(at) == 1:
        del made[at[0]]
    else:
        made[at[0]] = changed(tree[at[0]], at[1:], value)
    return made


def damage(file: Path, chance: random.Random) -> str:
    """Damage one value of a file; return what was done."""
    lines = file.read_text("utf-8").splitlines() if file.suffix == ".jsonl" else [file.read_text("utf-8")]  # fmt: skip
    number = chance.randrange(len(lines))
    tree = json.loads(lines[number])
    at, value = chance.choice(list(places(tree))), chance.choice(ODD)
    text = json.dumps(changed(tree, at, value))
    if chance.random() < 0.1:
        text = text.replace("{", '{"question_id":"z","turn":7,"kind":3,', 1)
    if chance.random() < 0.05:
        text = "[" * 10**5 + text
    lines[number] = text
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return f"{file.name}: {at} {str(value)[:40]!r}"


def late(number: int, frame: object) -> None:
    """Say that a command takes too long."""
    raise AssertionError(f"it takes more than {MOST_SECONDS} s")


def main() -> int:
    """Damage runs and read them for so long; return 1 where a command ended otherwise than in a sentence."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.json")
    given = parser.parse_args()
    from render_agent.cli.main import cli
    from render_agent.errors import RenderAgentError

    chance, tried = random.Random(given.seed), Counter[str]()
    lost: dict[str, dict[str, str]] = {}
    signal.signal(signal.SIGALRM, late)
    with tempfile.TemporaryDirectory(prefix="damaged-") as name:
        whole, runs = Path(name, "whole"), Path(name, "runs")
        for options in RUNS:
            words = ["--batch", "--benchmark", "rooms", "--engine", "scripted", "--image-size", "48x36", "--quiet"]  # fmt: skip
            done = CliRunner().invoke(cli, [*words, *options, "--output", str(whole)])
            assert done.exit_code == 0, done.output
        names = sorted(path.name for path in whole.iterdir())
        end = time.monotonic() + given.seconds
        while time.monotonic() < end:
            shutil.rmtree(runs, ignore_errors=True)
            shutil.copytree(whole, runs)
            done_to = damage(runs / chance.choice((names[0], names[0], names[2])) / chance.choice(FILES), chance)  # fmt: skip
            for words in chance.sample(commands(names, str(Path(name, "out"))), 7):
                tried[words[0]] += 1
                signal.alarm(MOST_SECONDS)
                error = CliRunner().invoke(cli, [*words, "--output", str(runs)]).exception
                signal.alarm(0)
                if error is not None and not isinstance(error, SystemExit | RenderAgentError):
                    told = "".join(traceback.format_exception(error))[-1500:]
                    own = f"{words[0]}: {type(error).__name__}: {str(error)[:80]}"
                    lost.setdefault(own, {"damage": done_to, "told": told})
    by_command = {n: [one for own, one in lost.items() if own.startswith(f"{n}:")] for n in tried}
    kinds = {
        n: {
            "injected": count,
            "survived": count - len(by_command[n]),
            "not_injected": 0,
            "not_survived": [
                {"seed": given.seed, "number": i, "what": f"{one['damage']}: {one['told']}"}
                for i, one in enumerate(by_command[n])
            ],
            "not_here": None,
        }
        for n, count in sorted(tried.items())
    }
    given.output.write_text(json.dumps({"seed": given.seed, "kinds": kinds}, indent=1) + "\n", "utf-8")  # fmt: skip
    sys.stdout.write(f"{tried.total()} tried, {len(lost)} kinds of tracebacks\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
