"""Compiler settings of the rasteriser's kernels, and their cache folder.

Compiled kernels are cached in the user's cache folder (override: `NUMBA_CACHE_DIR`), in a folder named after a hash of
all kernel sources, because numba detects changes in a kernel's own file but not in functions that it calls in other
files. If the folder is not writable, every process compiles the kernels again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.extending import intrinsic

from render_agent.util.atomic_files import user_cache

Function = TypeVar("Function", bound=Callable[..., Any])

SOURCES = (
    "kernels.py",
    "blocks.py",
    "morton.py",
    "mipmaps.py",
    "zbuffer.py",
    "face_colours.py",
    "point_splats.py",
    "gaussians/ewa.py",
    "gaussians/blending.py",
)


def cache_folder() -> Path | None:
    """Return the folder for compiled kernels, or None if none is writable."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    sources = b"".join((Path(__file__).parent / name).read_bytes() for name in SOURCES)
    return user_cache(f"numba-{hashlib.sha256(sources).hexdigest()[:12]}")


FOLDER = cache_folder()
if FOLDER is not None:
    numba.config.CACHE_DIR = str(FOLDER)


def is_cached(name: str) -> bool:
    """Return True if a compiled kernel is in the cache."""
    return FOLDER is not None and any(FOLDER.glob(f"*/*.{name}-*.nbi"))


OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": False, "error_model": "numpy"}


def kernel(function: Function) -> Function:
    """Compile `function` for this CPU; it runs without the GIL.

    Floating-point operations keep their order (no fastmath), so that all threads and runs give bit-identical results.
    Division follows IEEE 754, as in numpy.
    """
    return cast(Function, numba.njit(cache=FOLDER is not None, **OPTIONS)(function))


def inlined_kernel(function: Function) -> Function:
    """Compile `function` into each kernel that calls it.

    For functions that are called once per pixel and take many arrays, so that passing them dominates the cost.
    """
    return cast(Function, numba.njit(inline="always", **OPTIONS)(function))


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Prefetch the element at an index of an array, (n,), into the CPU cache. Out-of-range indices are harmless."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # Flags: read, keep in all cache levels, data.
        builder.call(call, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return numba.void(array, index), generate
