"""Runs coroutines from synchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread, because the main thread of a notebook already runs an event loop.

    The loop is closed even if nest_asyncio has replaced `asyncio.run`, whose replacement leaves loops open.
    """

    def run() -> T:
        with asyncio.Runner() as runner:
            return runner.run(coroutine)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()
