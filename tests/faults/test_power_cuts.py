"""A run whose machine loses its power, anywhere, goes on to the transcripts of an undisturbed one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("power_cuts.py")


def cut(folder, cuts, seed, *kinds):
    """Cut the power so often, in processes of their own; return what was found by kind."""
    only = [word for kind in kinds for word in ("--only", kind)]
    line = [sys.executable, SCRIPT, "--cuts", str(cuts), "--seed", str(seed), *only]
    done = subprocess.run(
        [*line, "--output", folder / "cuts.json"], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    found = json.loads((folder / "cuts.json").read_text())["kinds"]
    for row in found.values():
        assert row["not_survived"] == []
    return found


def test_what_a_durable_line_names_is_durable(tmp_path):
    found = cut(tmp_path, 1, 3, "look-ahead")["power cut: look-ahead"]
    assert found["survived"] == 1
    assert found["after_lines"] >= 1


@pytest.mark.slow
def test_many_power_cuts_of_every_kind_of_run(tmp_path):
    assert sum(row["survived"] for row in cut(tmp_path, 60, 4).values()) == 60
