"""The keyword arguments of `run` and `ask` are the declared options, and mypy checks them."""

import inspect

import render_agent
from render_agent.api.ask import COMMAND_LINE
from render_agent.api.keywords import RunOptions
from scripts.keywords import EXCLUDED, FILE, source


def test_keywords_are_generated_from_the_declarations():
    assert FILE.read_text() == source(), "run python -m scripts.keywords"


def test_keywords_are_not_also_parameters():
    assert COMMAND_LINE.keys() <= EXCLUDED
    for name in ("run", "ask", "continue_run", "load_engine"):
        parameters = inspect.signature(getattr(render_agent, name)).parameters
        assert parameters.keys().isdisjoint(RunOptions.__annotations__)
        assert list(parameters.values())[-1].annotation == "Unpack[RunOptions]"
