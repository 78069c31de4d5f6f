"""Checks of engines: libraries, devices, and local models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from render_agent.cli.commands.doctor.checks import Check, run_probe
from render_agent.engines.checkpoint.locate import find_model
from render_agent.errors import SetupError
from render_agent.options import AUTO, DEFAULT_MODEL

PART = "engines"
BUNDLED = "small"

LIBRARY_SECONDS, LOAD_SECONDS = 120.0, 1800.0

NO_MODEL = "use --engine scripted, which needs no model"


def engine_checks(options: Mapping[str, Any], *, probe: bool = False) -> Iterator[Check]:
    """Yield the checks of engines."""
    yield Check(PART, "scripted", True, "explorer, random, or a file of replies", needed=True)
    libraries = run_probe(__name__, "load_libraries", seconds=LIBRARY_SECONDS)
    detail = libraries.error or libraries.result["detail"]
    yield Check(PART, "transformers", libraries.error is None, detail, NO_MODEL)
    is_scripted = options.get("engine") == "scripted"
    name = (None if is_scripted else options.get("model")) or DEFAULT_MODEL
    local_models = []
    for title, model in (("bundled model", BUNDLED), ("model", name)):
        try:
            folder = find_model(model).folder
        except SetupError as error:
            yield Check(PART, title, False, str(error))
            continue
        if folder is not None:
            local_models.append(model)
        place = folder or "on the Hugging Face hub; the first run downloads it"
        yield Check(PART, title, True, f"--model {model}: {place}")
    if probe:
        device, dtype = options.get("device") or AUTO, options.get("dtype") or AUTO
        for model in dict.fromkeys(local_models):
            yield _probe(model, device, dtype)


def _probe(model: str, device: str, dtype: str) -> Check:
    """Test a model in a subprocess."""
    module = "render_agent.cli.commands.doctor.model_probe"
    answer = run_probe(module, "probe_model", model, device, dtype, seconds=LOAD_SECONDS)
    return probe_check(model, answer.result, answer.error)


def probe_check(model: str, result: Mapping[str, Any], error: str | None = None) -> Check:
    """Convert the result of `probe_model` to a check; `error` is the reason if there is no result."""
    if reason := error or result["batch"]:
        return Check(PART, model, False, reason, f"use --batch-size 1, or {NO_MODEL}")
    reuse = "reuse = recompute" if result["reuse"] is None else f"no reuse: {result['reuse']}"
    why = result["reproducible"]
    exact = "bit-for-bit reproducible with --reproducible on" if why is None else why
    return Check(PART, model, True, f"batch = single, {reuse}; {exact}; {result['seconds']:.1f} s")


def load_libraries() -> dict[str, Any]:
    """Import the libraries of the transformers engine and return their versions and devices."""
    import torch

    from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

    patch_torchvision()
    import transformers
    from transformers import AutoModelForImageTextToText, AutoProcessor  # noqa: F401

    devices = ["cpu"]
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        devices.append(
            f"cuda:{number} ({properties.name}, {properties.total_memory / 2**30:.0f} GiB)"
        )
    if torch.backends.mps.is_available():
        devices.append("mps")
    versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
    return {"detail": f"runs on {', '.join(devices)}; {versions}"}
