"""Cures torchvision in every process of a virtual environment, while it is imported.

vLLM inspects models in processes of its own, which never reach `cure_torchvision` otherwise.
`set-up-vllm` puts this module beside the packages, with a .pth file that imports it.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class CureBeforeTorchvision(MetaPathFinder):
    """Finds no module; at the first part of torchvision that needs its operators it declares them."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Leave every module to the other finders."""
        if name == "torchvision._meta_registrations":
            sys.meta_path.remove(self)
            from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision

            cure_torchvision()


sys.meta_path.insert(0, CureBeforeTorchvision())
