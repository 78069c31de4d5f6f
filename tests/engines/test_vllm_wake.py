"""`wake` interrupts the wait for vLLM, tested with a fake core because vLLM is rarely installed.

`make test-vllm` tests the real one in tests/with_vllm/test_vllm_engine.py. This file is not in a folder `vllm`, which
would shadow the library on the test path.
"""

from types import SimpleNamespace

import pytest

from render_agent.engines.engine import Request
from render_agent.engines.vllm import vllm_engine as module


class FakeCore:
    """Finishes the requests of the next entry of a plan in every step."""

    sequences = 4

    def __init__(self, *plan):
        self.plan = list(plan)
        self.steps = 0
        self.on_step = lambda: None

    def add(self, name, prompt, params):
        assert name.isdecimal()

    def step(self, timeout=None):
        self.steps += 1
        self.on_step()
        completion = SimpleNamespace(token_ids=[1, 2], finish_reason="stop")
        tokens = {"prompt_token_ids": [7, 8, 9], "num_cached_tokens": 1}
        return [
            SimpleNamespace(request_id=str(number), outputs=[completion], **tokens)
            for number in self.plan.pop(0)
        ]


class FakePrompts:
    """Prompts of a model without a processor and without thinking."""

    marks = None

    def __init__(self, *_):
        """Ignore the arguments."""

    def build(self, request):
        return SimpleNamespace(guided=False)

    def text(self, ids, *, opened):
        return str(ids)


@pytest.fixture
def engine(monkeypatch):
    """An engine that finishes nothing in its first step, request 1 in its second, and request 0 in its third."""

    def load(engine, located, on_cpu):
        engine.sampling = SimpleNamespace(params=lambda *_: None)
        return FakeCore([], [1], [0])

    located = SimpleNamespace(config={}, adapter=None)
    for name in ("require_vllm", "patch_torchvision", "silence_libraries", "prepare_environment"):
        monkeypatch.setattr(module, name, lambda *_: None)
    for name in ("find_model", "fetch_model", "load_processor"):
        monkeypatch.setattr(module, name, lambda *_: located)
    monkeypatch.setattr(module, "Prompts", FakePrompts)
    monkeypatch.setattr(module.VllmEngine, "_load", load)
    return module.VllmEngine("any")


def requests(*names):
    return [Request(name, 0, [], lambda file: None) for name in names]


def ready(engine, timeout=None):
    return [(request.dialogue_id, reply.text) for request, reply in engine.ready(timeout)]


def test_wake_interrupts_waiting_after_the_next_step_and_loses_nothing(engine):
    engine.submit(requests("a", "b"))
    engine.wake()
    engine.wake()
    assert (ready(engine), engine.core.steps) == ([], 1)
    assert (ready(engine), engine.core.steps) == ([("b", "[1]")], 2)
    assert (ready(engine), engine.core.steps) == ([("a", "[1]")], 3)


def test_wake_during_a_step_interrupts_waiting(engine):
    engine.submit(requests("a", "b"))
    engine.core.on_step = engine.wake
    assert (ready(engine), engine.core.steps) == ([], 1)
    assert ready(engine) == [("b", "[1]")]
