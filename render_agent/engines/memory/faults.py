"""Faults of a model call: out of memory, a lost device, or any other error."""

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

# Messages of libraries that ran out of memory: cuBLAS without memory for its handle, cuDNN without memory for a plan.
OUT_OF_MEMORY_MESSAGES = (
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

# Messages of a lost device. Some also appear after running out of memory, as "unknown error".
DEVICE_PHRASES = (
    "CUDA error",
    "HIP error",
    "device-side assert",
    "CUBLAS_STATUS_",
    "CUDNN_STATUS_",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a model call failed."""

    reason: str
    out_of_memory: bool


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error says that the device or the machine ran out of memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        t.lower() in message for t in OUT_OF_MEMORY_MESSAGES
    )


def is_device_error(error: BaseException) -> bool:
    """True if an error comes from the device and is not clearly an out-of-memory error."""
    return (
        isinstance(error, RuntimeError)
        and not is_out_of_memory(error)
        and any(text in str(error) for text in DEVICE_PHRASES)
    )


def device_works(device: Any) -> bool:
    """True if a small allocation and a matrix product succeed on a device."""
    try:
        small = torch.ones(64, 64, device=device)
        return float((small @ small).sum()) == 64.0**3
    except RuntimeError:
        return False


def free_memory() -> None:
    """Free the memory of a failed call. The caller must have dropped its exception, which references tensors."""
    gc.collect()
    if torch.cuda.is_available():
        # The first call after a device error may report it again.
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            LOG.info("the device reported its error again", exc_info=True)
        try:
            torch.cuda.empty_cache()
        except RuntimeError:
            LOG.info("the device memory could not be released", exc_info=True)
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def attempt(call: Callable[[], Outcome], device: Any) -> Outcome | Fault:
    """Return the result of `call`, or its fault after releasing the memory of the failed call.

    A device error counts as out of memory if the device works again after the release.
    """
    try:
        return call()
    # The processor and the model can raise anything for a prompt that they do not support.
    except Exception as error:
        if isinstance(error, EngineError):
            raise
        is_of_device = is_device_error(error)
        fault = Fault(first_line(error), is_of_device or is_out_of_memory(error))
        if not fault.out_of_memory or is_of_device:
            LOG.warning("a model call failed", exc_info=True)
    # Outside the except clause the exception is gone, which references the tensors of the failed call.
    if fault.out_of_memory:
        free_memory()
    if is_of_device and not device_works(device):
        raise EngineError(
            f"{device} stopped working ({fault.reason}). Restart it, then resume the run with"
            " --continue recent"
        )
    return fault


GPU_RETRY_SECONDS = (0, 1, 4, 10, 15)  # delays; other processes may release GPU memory meanwhile
RETRY_SECONDS = (0, 0, 0)  # delays on other devices, where waiting does not help


def retry_delays(device: Any) -> tuple[int, ...]:
    """Return the delays in seconds before each retry after running out of memory."""
    return GPU_RETRY_SECONDS if device.type == "cuda" else RETRY_SECONDS


def attempt_with_retries(call: Callable[[], Outcome], device: Any) -> Outcome | Fault:
    """Call `attempt` until there is enough memory or all retries are used up."""
    for seconds in retry_delays(device):
        outcome = attempt(call, device)
        if not isinstance(outcome, Fault) or not outcome.out_of_memory:
            return outcome
        LOG.warning("out of memory before the first prompt; retrying in %d s", seconds)
        time.sleep(seconds)
    return attempt(call, device)
