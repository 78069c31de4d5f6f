"""How the rasteriser's inner loops are compiled, and where the compiled code is kept.

The compiled code is kept in the user's cache (`NUMBA_CACHE_DIR` overrides the place), in a folder
named after the sources of the kernels: numba notices that a kernel's own file changed, but not
that a function which it calls in another file did. Where no folder can be written, every process
compiles anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

SOURCES = (
    "kernels.py",
    "blocks.py",
    "morton.py",
    "splat_radii.py",
    "mipmaps.py",
    "zbuffer.py",
    "face_colours.py",
    "point_splats.py",
    "gaussians/ewa.py",
    "gaussians/blending.py",
)


def cache_folder() -> Path | None:
    """Return the folder where compiled kernels are kept; None where none can be written."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    sources = b"".join((Path(__file__).parent / name).read_bytes() for name in SOURCES)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    folder = Path(cache) / "render_agent" / f"numba-{hashlib.sha256(sources).hexdigest()[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


FOLDER = cache_folder()
if FOLDER is not None:
    numba.config.CACHE_DIR = str(FOLDER)


def is_kept(name: str) -> bool:
    """Whether an earlier process left a kernel compiled."""
    return FOLDER is not None and any(FOLDER.glob(f"*/*.{name}-*.nbi"))


OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": False, "error_model": "numpy"}


def kernel(function: Function) -> Function:
    """Compile `function` for this processor; it runs without the interpreter's lock.

    Floating point keeps its exact order (no fastmath), so that every thread and run gives the
    same bits, and division follows IEEE 754, as in numpy.
    """
    return cast(Function, numba.njit(cache=FOLDER is not None, **OPTIONS)(function))


def inlined_kernel(function: Function) -> Function:
    """Compile `function` into each kernel that calls it.

    For what runs once a pixel with many arrays: handing them over costs more than the work itself.
    """
    return cast(Function, numba.njit(inline="always", **OPTIONS)(function))


@intrinsic  # type: ignore[untyped-decorator]
def fetched_soon(_: Any, array: Any, index: Any) -> Any:
    """Let the processor bring what lies at an index of an array, (n,), into its cache meanwhile, wherever that is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(call, [place, number(0), number(3), number(1)])  # to be read, kept near, data
        return context.get_dummy_value()

    return numba.void(array, index), generate
