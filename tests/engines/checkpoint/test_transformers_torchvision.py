"""torchvision can be imported even if it was built for another torch."""

import importlib.util
from types import SimpleNamespace

import pytest

from render_agent.engines.checkpoint.torchvision_compat import _built_for_cuda, patch_torchvision


def test_image_processors_can_be_imported_afterwards():
    library = patch_torchvision()
    import torchvision
    from transformers import Qwen2VLImageProcessor

    assert torchvision.__version__
    assert Qwen2VLImageProcessor().patch_size
    assert patch_torchvision() is library


@pytest.mark.parametrize(
    ("version", "expected"), [("0.28.0+cu130", True), ("0.28.0+cpu", False), ("0.28.0", False)]
)
def test_cuda_build_is_detected_without_importing_it(tmp_path, monkeypatch, version, expected):
    (tmp_path / "version.py").write_text(f"__version__ = '{version}'\ngit_version = 'x'\n", "utf-8")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert _built_for_cuda() is expected


def test_missing_torchvision_is_not_a_cuda_build(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not _built_for_cuda()
