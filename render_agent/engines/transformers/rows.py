"""Requests as rows of a batch."""

from __future__ import annotations

from render_agent.engines.base import Request


def distinct_samples(request: Request) -> int:
    """Return how many samples of a request can differ: greedily, one."""
    return request.samples if request.temperature > 0 else 1
