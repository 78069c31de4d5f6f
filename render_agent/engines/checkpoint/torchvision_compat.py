"""Lets a torchvision built for CUDA be imported beside a torch built for the CPU.

Package indexes pair the two that way when only torch is pinned. torchvision then cannot load its
compiled operators and fails on import, and with it the picture processing of transformers, although
that needs none of those operators. Declaring the two that its import looks for is enough.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

OPERATORS = ("nms", "qnms")


@cache
def cure_torchvision() -> Any:
    """Declare the missing operators where they are missing; call before transformers is imported.

    Returns the library that holds them, or None where there is nothing to cure. The cache keeps
    it alive: the operators vanish with it.
    """
    import torch

    if torch.version.cuda is not None or not _built_for_cuda():
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def _built_for_cuda() -> bool:
    """Whether the installed torchvision is a CUDA build, read without importing it."""
    spec = importlib.util.find_spec("torchvision")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        version = Path(folder, "version.py")
        if version.is_file():
            return bool(re.search(r"__version__ = '[^']*\+cu\d", version.read_text("utf-8")))
    return False
