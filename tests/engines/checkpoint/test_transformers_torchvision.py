"""torchvision can be imported, whatever torch it was built for."""

import importlib.util
from types import SimpleNamespace

import pytest

from render_agent.engines.checkpoint.torchvision_compat import _built_for_cuda, cure_torchvision


def test_after_the_cure_pictures_can_be_processed():
    cure = cure_torchvision()
    import torchvision
    from transformers import Qwen2VLImageProcessor

    assert torchvision.__version__
    assert Qwen2VLImageProcessor().patch_size
    assert cure_torchvision() is cure


@pytest.mark.parametrize(
    ("version", "expected"), [("0.28.0+cu130", True), ("0.28.0+cpu", False), ("0.28.0", False)]
)
def test_a_build_for_cuda_is_recognised_without_an_import(tmp_path, monkeypatch, version, expected):
    (tmp_path / "version.py").write_text(f"__version__ = '{version}'\ngit_version = 'x'\n", "utf-8")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert _built_for_cuda() is expected


def test_no_torchvision_is_no_build_for_cuda(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not _built_for_cuda()
