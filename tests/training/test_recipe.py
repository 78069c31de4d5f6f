"""The recipe in training/Makefile: every stage's command exists, and the quick recipe runs from scratch."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from factories import TREE

MAKE = ("make", "-f", "training/Makefile", f"PYTHON={sys.executable}", "QUICK=1")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def recipe(*arguments):
    return subprocess.run(
        [*MAKE, *arguments], cwd=TREE, capture_output=True, text=True, check=False
    )


def test_every_stage_runs_an_existing_module(tmp_path):
    planned = recipe("-n", f"WORK={tmp_path}")
    assert planned.returncode == 0, planned.stderr
    modules = set(re.findall(r"-m (training\.\w+)", planned.stdout))
    assert modules >= {"training.perception", "training.dialogue", "training.ship"}
    for module in modules:
        assert Path(TREE, *module.split(".")).with_suffix(".py").is_file()


@pytest.mark.slow
def test_quick_recipe_makes_a_model_and_is_then_up_to_date(tmp_path):
    model = tmp_path / "small"
    variables = (f"WORK={tmp_path / 'work'}", f"MODEL={model}")
    result = recipe(*variables)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    assert (model / "model.safetensors").is_file()
    assert "training." not in recipe(*variables).stdout
