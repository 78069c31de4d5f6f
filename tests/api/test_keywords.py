"""The keywords of `run` and `ask` are the declared options, and mypy checks them."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import render_agent
from render_agent.api.ask import COMMAND_LINE
from render_agent.api.options import RunOptions
from render_agent.config import OPTIONS

PARAMETERS = {"batch", "ply", "question", "option", "engine", "model", "output"}
"""Options that are parameters of `ask` or `run`, or implied by them."""


def test_every_option_is_a_keyword():
    assert RunOptions.__annotations__.keys() == OPTIONS.keys() - COMMAND_LINE.keys() - PARAMETERS
    for name in ("run", "ask", "continue_run", "load_engine"):
        parameters = inspect.signature(getattr(render_agent, name)).parameters
        assert parameters.keys().isdisjoint(RunOptions.__annotations__)
        assert list(parameters.values())[-1].annotation == "Unpack[RunOptions]"


@pytest.mark.slow  # `make lint` does the same in every change
def test_mypy_takes_right_keywords_and_refuses_wrong_ones(tmp_path):
    pytest.importorskip("mypy")
    snippet = Path(__file__).with_name("typed_keywords.py")
    bare = tmp_path / "bare.py"
    bare.write_text(snippet.read_text("utf-8").partition("def refused")[0] + BARE, "utf-8")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), str(snippet), str(bare)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(wrong) == 2, done.stdout
    assert 'Unexpected keyword argument "max_turn"' in wrong[0]
    assert 'incompatible type "str"' in wrong[1]


BARE = """
render_agent.run(max_turn=3)
render_agent.run(limit="three")
"""
