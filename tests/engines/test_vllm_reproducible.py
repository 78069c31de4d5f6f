"""`--engine vllm --reproducible on`, tested with a fake vLLM because the real one is rarely installed."""

import os
import sys
from importlib import metadata
from types import ModuleType, SimpleNamespace

import pytest
from factories.models import small_model
from factories.runs import make_config, make_questions

from render_agent.engines.make_engine import describe_engine
from render_agent.engines.vllm.arguments import (
    INVARIANCE,
    VllmOptions,
    engine_arguments,
    prepare_environment,
    vllm_options,
)
from render_agent.errors import SetupError
from render_agent.report.sentences.facts import request_facts
from render_agent.runs.build import build
from render_agent.runs.preflight import check_new


class Platform:
    """A GPU of a given kind and compute capability."""

    device_type = "cuda"

    def __init__(self, kind="cuda", capability=90):
        self.kind, self.capability = kind, capability

    def is_cpu(self):
        return self.kind == "cpu"

    def is_cuda(self):
        return self.kind == "cuda"

    def is_rocm(self):
        return self.kind == "rocm"

    def has_device_capability(self, capability):
        return self.capability >= capability

    def get_device_name(self):
        return "GPU A"


@pytest.fixture
def install(monkeypatch):
    """Return a function that installs a fake vLLM."""
    version = metadata.version

    def add(platform, variables=(INVARIANCE,)):
        modules = {
            "vllm": {},
            "vllm.envs": {"environment_variables": dict.fromkeys(variables)},
            "vllm.platforms": {"current_platform": platform},
            "vllm.config": {"StructuredOutputsConfig": lambda **arguments: arguments},
            "vllm.engine": {},
            "vllm.engine.arg_utils": {"EngineArgs": VllmOptions},
        }
        for name, content in modules.items():
            module = ModuleType(name)
            module.__spec__ = SimpleNamespace(name=name)
            vars(module).update(content)
            monkeypatch.setitem(sys.modules, name, module)
        sys.modules["vllm"].envs = sys.modules["vllm.envs"]

    monkeypatch.setattr(
        metadata, "version", lambda name: "0.32.0" if name == "vllm" else version(name)
    )
    monkeypatch.setattr("render_agent.engines.vllm.arguments.version", metadata.version)
    monkeypatch.setattr("render_agent.engines.vllm.arguments.require_vllm", lambda: None)
    monkeypatch.delenv(INVARIANCE, raising=False)
    return add


def config(folder, **options):
    options = {"engine": "vllm", "model": str(small_model()), "reproducible": "on", **options}
    return make_config(folder, make_questions(folder, 1), **options)


def check(folder, **options):
    parts = build(config(folder, **options))
    check_new(parts, parts.questions())


def test_supported_model_is_run_in_the_batch_invariant_mode(tmp_path, install, monkeypatch):
    install(Platform())
    monkeypatch.setenv(INVARIANCE, "0")
    check(tmp_path)
    record = describe_engine(config(tmp_path))["reproducible"]
    assert record["device"] == "GPU A"
    assert record["vllm"] == "0.32.0"
    assert INVARIANCE in record["check"]
    options = vllm_options(config(tmp_path), {}, 2)
    prepare_environment(options.device, options.reproducible)
    assert os.environ[INVARIANCE] == "1"
    assert engine_arguments("folder", options, False)["enable_prefix_caching"] is False
    assert request_facts(config(tmp_path), {})["Reproducible"].startswith("bit-for-bit")


def test_check_does_not_select_the_gpu(tmp_path, install, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install(Platform())
    check(tmp_path, device="cuda:1")
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_other_runs_use_the_prefix_cache(tmp_path, install):
    install(Platform("cpu"))
    check(tmp_path, reproducible="auto")
    options = vllm_options(config(tmp_path, reproducible="auto"), {}, 2)
    prepare_environment(options.device, options.reproducible)
    assert INVARIANCE not in os.environ
    assert engine_arguments("folder", options, False)["enable_prefix_caching"] is True
    assert "reproducible" not in describe_engine(config(tmp_path, reproducible="auto"))


@pytest.mark.parametrize(
    ("platform", "variables", "reason"),
    [
        (Platform(), (), "0.32.0"),
        (Platform("cuda", 75), (INVARIANCE,), "8.0"),
        (Platform("cpu"), (INVARIANCE,), "AMD Instinct"),
    ],
)
def test_device_or_version_without_support_is_refused(
    tmp_path, install, platform, variables, reason
):
    install(platform, variables)
    with pytest.raises(SetupError, match=f"--reproducible on: .*{reason}"):
        check(tmp_path)


def test_model_that_vllm_does_not_test_is_refused(tmp_path, install, monkeypatch):
    install(Platform())
    located = SimpleNamespace(config={"model_type": "qwen3_5"})
    monkeypatch.setattr("render_agent.engines.checkpoint.locate.find_model", lambda *_: located)
    with pytest.raises(SetupError, match="qwen3_vl, not for qwen3_5"):
        check(tmp_path)
