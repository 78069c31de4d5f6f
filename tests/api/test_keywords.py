"""The keyword arguments of `run` and `ask` are the declared options, and mypy checks them."""

import inspect

import render_agent
from render_agent.api.ask import COMMAND_LINE
from render_agent.api.keywords import RunOptions
from render_agent.options import OPTIONS

# Options that are parameters of `ask` or `run`, or implied by them.
PARAMETERS = {"batch", "ply", "question", "option", "engine", "model", "output"}


def test_every_option_is_a_keyword_argument():
    assert RunOptions.__annotations__.keys() == OPTIONS.keys() - COMMAND_LINE.keys() - PARAMETERS
    for name in ("run", "ask", "continue_run", "load_engine"):
        parameters = inspect.signature(getattr(render_agent, name)).parameters
        assert parameters.keys().isdisjoint(RunOptions.__annotations__)
        assert list(parameters.values())[-1].annotation == "Unpack[RunOptions]"
