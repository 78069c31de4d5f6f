"""Applies the torchvision fix in every process of a virtual environment, when torchvision is imported.

vLLM inspects models in subprocesses that never call `patch_torchvision` themselves. `set-up-vllm` installs this module
together with a .pth file that imports it.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class CureBeforeTorchvision(MetaPathFinder):
    """Declares torchvision's operators just before the first module that needs them. Finds no module itself."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Leave every module to the other finders."""
        if name == "torchvision._meta_registrations":
            sys.meta_path.remove(self)
            from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

            patch_torchvision()


sys.meta_path.insert(0, CureBeforeTorchvision())
