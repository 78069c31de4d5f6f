"""Fixtures for the environments."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def run_async():
    """Run a coroutine to its end, on a thread of its own: the browser of the page tests keeps a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        yield lambda coroutine: thread.submit(asyncio.run, coroutine).result()
