"""Telling what went wrong on a device, and giving its memory back."""

from __future__ import annotations

import gc

import torch

MEMORY_PHRASES = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
LOST_PHRASES = ("CUDA error", "HIP error", "device-side assert", "CUBLAS_STATUS_", "CUDNN_STATUS_")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a smaller batch may avoid the error: the memory of the device or of the machine ran out."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in MEMORY_PHRASES)


def is_device_lost(error: BaseException) -> bool:
    """Whether the device answers nothing any more: after such an error every call on it fails."""
    return (
        isinstance(error, RuntimeError)
        and not is_out_of_memory(error)
        and any(text in str(error) for text in LOST_PHRASES)
    )


def free_memory() -> None:
    """Give back what a failed call left behind; its exception must have been dropped before."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()
