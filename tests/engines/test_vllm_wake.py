"""Whoever waits for vLLM can be woken; a stand-in for its core, as vLLM itself is seldom here.

`make test-vllm` asks the same of the real one: tests/with_vllm/test_vllm_engine.py.
It lies in no folder `vllm`, which would be on the path of the tests and pass for the library.
"""

from types import SimpleNamespace

import pytest

from render_agent.engines.engine import Request
from render_agent.engines.vllm import vllm_engine as module


class Core:
    """Finishes in every step the requests, by number, that stand next in its plan."""

    sequences = 4

    def __init__(self, *plan):
        self.plan = list(plan)
        self.steps = 0
        self.during = lambda: None

    def add(self, name, prompt, params):
        assert name.isdecimal()

    def step(self, timeout=None):
        self.steps += 1
        self.during()
        written = SimpleNamespace(token_ids=[1, 2], finish_reason="stop")
        tokens = {"prompt_token_ids": [7, 8, 9], "num_cached_tokens": 1}
        return [
            SimpleNamespace(request_id=str(number), outputs=[written], **tokens)
            for number in self.plan.pop(0)
        ]


class Words:
    """Prompts without a processor, of a model that does not think."""

    marks = None

    def __init__(self, *_):
        """Whatever the model is."""

    def of(self, request):
        return SimpleNamespace(guided=False)

    def text(self, ids, *, opened):
        return str(ids)


@pytest.fixture
def engine(monkeypatch):
    """An engine whose first step finishes nothing, the second request 1, the third request 0."""

    def load(engine, found, on_cpu):
        engine.sampling = SimpleNamespace(params=lambda *_: None)
        return Core([], [1], [0])

    found = SimpleNamespace(config={})
    for name in ("require_vllm", "cure_torchvision", "silence_libraries", "prepare_environment"):
        monkeypatch.setattr(module, name, lambda *_: None)
    for name in ("find_model", "fetch_model", "describe_found", "load_processor"):
        monkeypatch.setattr(module, name, lambda *_: found)
    monkeypatch.setattr(module, "Prompts", Words)
    monkeypatch.setattr(module.VllmEngine, "_load", load)
    return module.VllmEngine("any")


def asked(*names):
    return [Request(name, 0, [], lambda file: None) for name in names]


def answered(engine, timeout=None):
    return [(request.question_id, reply.text) for request, reply in engine.ready(timeout)]


def test_waiting_ends_after_the_next_step_when_woken_and_nothing_is_lost(engine):
    engine.submit(asked("a", "b"))
    engine.wake()
    engine.wake()
    assert (answered(engine), engine.core.steps) == ([], 1)
    assert (answered(engine), engine.core.steps) == ([("b", "[1]")], 2)
    assert (answered(engine), engine.core.steps) == ([("a", "[1]")], 3)


def test_whoever_wakes_it_during_a_step_is_heard(engine):
    engine.submit(asked("a", "b"))
    engine.core.during = engine.wake
    assert (answered(engine), engine.core.steps) == ([], 1)
    assert answered(engine) == [("b", "[1]")]
