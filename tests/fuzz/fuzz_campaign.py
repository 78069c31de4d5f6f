"""Look for inputs that the program does not survive, for as long as one likes.

python tests/fuzz/fuzz_campaign.py --seconds 3600 --seed 1 --output found.json

Every target has its share of the time. The inputs that fail, made small, are written beside the output,
into a folder of its name; a target's corpus is where it begins, beside its valid inputs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[place]) for place in (0, 1, 2)]


def main() -> int:
    """Search, write what was found; 1 where something was."""
    from fuzz_child import Child
    from fuzz_targets import TARGETS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="for all targets together")
    parser.add_argument("--inputs", type=int, help="at most so many a target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this one")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.json")
    given = parser.parse_args()
    names = given.target or list(TARGETS)
    found = {}
    left = given.seconds
    child = Child()
    for number, name in enumerate(names):
        began = time.monotonic()
        found[name] = searched(name, child, given, left / (len(names) - number))
        left -= time.monotonic() - began
        given.output.write_text(json.dumps(_record(given, found), indent=1) + "\n", "utf-8")
        told = found[name]
        sys.stderr.write(
            f"{name}: {told['tried']:,} inputs in {told['seconds']:.0f} s,"
            f" {told['lines']} lines ({told['lines_of_seeds']} by the valid ones),"
            f" {len(told['failures'])} failures\n"
        )
    child.close()
    return int(any(told["failures"] for told in found.values()))


def searched(name: str, child: Any, given: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Return what a search of one target came to."""
    from fuzz_corpus import corpus
    from fuzz_search import Search
    from fuzz_targets import TARGETS

    search = Search(TARGETS[name], given.seed, corpus(name), child.tried)
    found = search.found
    while found.seconds < seconds and found.tried < (given.inputs or found.tried + 1):
        search.step()
    failures = []
    for fault, failure in found.failures.items():
        file = _saved(given.output, name, failure.data)
        failures.append(
            {"fault": fault, "inputs": failure.count, "smallest": file, "told": failure.told}
        )
    return {
        "tried": found.tried,
        "taken": found.taken,
        "refused": found.refused,
        "seconds": round(found.seconds, 1),
        "lines": len(found.lines),
        "lines_of_seeds": found.begun,
        "slowest_seconds": round(found.slowest, 3),
        "most_memory": found.memory,
        "failures": failures,
    }


def _saved(output: Path, name: str, data: bytes) -> str:
    """Write an input that fails; return where it lies, from the folder of the output."""
    folder = output.with_suffix("") / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / hashlib.sha256(data).hexdigest()[:12]
    file.write_bytes(data)
    return str(file.relative_to(output.parent))


def _record(given: argparse.Namespace, found: dict[str, Any]) -> dict[str, Any]:
    import fuzz_bounds

    bounds = {name.lower(): value for name, value in vars(fuzz_bounds).items() if name.isupper()}
    return {
        "seed": given.seed,
        "python": platform.python_version(),
        "bounds": bounds,
        "tried": sum(told["tried"] for told in found.values()),
        "seconds": round(sum(told["seconds"] for told in found.values()), 1),
        "failures": sum(len(told["failures"]) for told in found.values()),
        "targets": found,
    }


if __name__ == "__main__":
    sys.exit(main())
