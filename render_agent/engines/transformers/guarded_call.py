"""A call of the model that may fail: what it gave, or why it failed with its memory given back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from render_agent.engines.transformers.memory_faults import (
    free_memory,
    is_device_lost,
    is_out_of_memory,
)
from render_agent.engines.transformers.pretrained import first_line
from render_agent.errors import EngineError

LOG = logging.getLogger(__name__)
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call of the model failed."""

    reason: str
    out_of_memory: bool


def attempt(call: Callable[[], Given], device: Any) -> Given | Fault:
    """Return what `call` gives, or why it failed. EngineError where the device is lost.

    The exception is dropped before memory is given back: it holds the failed call's tensors.
    """
    try:
        return call()
    # The processor and the model may raise anything for a prompt that they cannot take.
    except Exception as error:
        if isinstance(error, EngineError):
            raise
        if is_device_lost(error):
            raise EngineError(
                f"{device} answers no more ({first_line(error)}): restart, and continue the run with"
                " --continue recent"
            ) from error
        fault = Fault(first_line(error), is_out_of_memory(error))
        if not fault.out_of_memory:
            LOG.warning("a call of the model failed", exc_info=True)
    if fault.out_of_memory:
        free_memory()
    return fault
