"""Coroutines run to their end beside a running event loop, and leave no loop open."""

import asyncio

import pytest

from render_agent.util.coroutines import run_in_thread


async def own_loop():
    await asyncio.sleep(0)
    return asyncio.get_running_loop()


def test_event_loop_is_private_and_closed_even_if_asyncio_run_is_patched(monkeypatch):
    monkeypatch.setattr(asyncio, "run", lambda coroutine: pytest.fail("another asyncio.run"))

    async def notebook():
        return run_in_thread(own_loop()), asyncio.get_running_loop()

    inner, outer = run_in_thread(notebook())
    assert inner is not outer
    assert inner.is_closed()
    assert outer.is_closed()


def test_exceptions_are_raised():
    async def fail():
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_in_thread(fail())
