"""Makes a CUDA build of torchvision importable together with a CPU build of torch.

Package indexes install this combination if only torch is pinned. torchvision then cannot load its
compiled operators and fails on import, and so does the image processing of transformers, although it
does not use these operators. Declaring the two operators that the import needs is enough.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

OPERATORS = ("nms", "qnms")


@cache
def patch_torchvision() -> Any:
    """Declare the missing operators of torchvision, if necessary. Call it before importing transformers.

    The cached result, None if nothing is missing, keeps the operators alive.
    """
    import torch

    if torch.version.cuda is not None or not _built_for_cuda():
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def _built_for_cuda() -> bool:
    """True if the installed torchvision is a CUDA build; checked without importing it."""
    spec = importlib.util.find_spec("torchvision")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        version = Path(folder, "version.py")
        if version.is_file():
            return bool(re.search(r"__version__ = '[^']*\+cu\d", version.read_text("utf-8")))
    return False
