"""What goes wrong in a call of the model: memory that ran out, a device that is lost, or a fault of the model."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from render_agent.errors import EngineError
from render_agent.util.reasons import first_line

LOG = logging.getLogger(__name__)
Outcome = TypeVar("Outcome")

MEMORY_PHRASES = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "mha_graph",
    "cudnnFinalize Failed",
    "no valid execution plans built",
    "Unable to find an engine",
)
"""What libraries say that lack memory; cuBLAS where it has none for its handle, cuDNN where it has none for a plan."""

DEVICE_PHRASES = (
    "CUDA error",
    "HIP error",
    "device-side assert",
    "CUBLAS_STATUS_",
    "CUDNN_STATUS_",
)
"""What is said of a device that lacks memory or is lost: after a shortage some errors only say "unknown error"."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call of the model failed."""

    reason: str
    out_of_memory: bool


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the words of an error say that the memory of the device or of the machine ran out."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(t.lower() in words for t in MEMORY_PHRASES)


def is_device_error(error: BaseException) -> bool:
    """Whether an error is of the device and does not say that memory ran out."""
    return (
        isinstance(error, RuntimeError)
        and not is_out_of_memory(error)
        and any(text in str(error) for text in DEVICE_PHRASES)
    )


def device_answers(device: Any) -> bool:
    """Whether a small new allocation and a product on a device go well."""
    try:
        small = torch.ones(64, 64, device=device)
        return float((small @ small).sum()) == 64.0**3
    except RuntimeError:
        return False


def free_memory() -> None:
    """Free the memory of a failed call; its exception must have been dropped before."""
    gc.collect()
    if torch.cuda.is_available():
        # After a fault the first call may report it once more.
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            LOG.info("the device repeats its fault", exc_info=True)
        try:
            torch.cuda.empty_cache()
        except RuntimeError:
            LOG.info("the device gives nothing back", exc_info=True)
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def attempt(call: Callable[[], Outcome], device: Any) -> Outcome | Fault:
    """Return the result of `call`, or its fault, with the memory of the failed call given back.

    EngineError where the device is lost: where it answers no more once memory is given back. An error
    of a device that still answers counts as a lack of memory. The exception is dropped before memory is
    given back: it holds the failed call's tensors.
    """
    try:
        return call()
    # The processor and the model may raise anything for a prompt that they cannot take.
    except Exception as error:
        if isinstance(error, EngineError):
            raise
        of_device = is_device_error(error)
        fault = Fault(first_line(error), of_device or is_out_of_memory(error))
        if not fault.out_of_memory or of_device:
            LOG.warning("a call of the model failed", exc_info=True)
    if fault.out_of_memory:
        free_memory()
    if of_device and not device_answers(device):
        raise EngineError(
            f"{device} answers no more ({fault.reason}): restart, and continue the run with"
            " --continue recent"
        )
    return fault


WAITS_SECONDS = (0, 1, 4, 10, 15)
"""How long is waited, time after time, for memory of a GPU that others hold."""

TRIES = (0, 0, 0)
"""The same elsewhere, where nobody else's memory comes back."""


def waits(device: Any) -> tuple[int, ...]:
    """Return after how many seconds, time after time, what found no memory is tried again."""
    return WAITS_SECONDS if device.type == "cuda" else TRIES


def attempt_patiently(call: Callable[[], Outcome], device: Any) -> Outcome | Fault:
    """Return what `attempt` does, tried again and again where there is no memory."""
    for seconds in waits(device):
        outcome = attempt(call, device)
        if not isinstance(outcome, Fault) or not outcome.out_of_memory:
            return outcome
        LOG.warning("out of memory before the first prompt: tried again in %d s", seconds)
        time.sleep(seconds)
    return attempt(call, device)
