"""What can answer here: libraries, devices, and models at hand."""

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
    """Give the findings about the engines.

    options: of a run. probe: also let the bundled model answer, and the named one if it is on this machine.
    """
    yield Check(PART, "scripted", True, "explorer, random, or a file of replies", needed=True)
    libraries = run_probe(__name__, "load_libraries", seconds=LIBRARY_SECONDS)
    detail = libraries.error or libraries.found["detail"]
    yield Check(PART, "transformers", libraries.error is None, detail, NO_MODEL)
    scripted = options.get("engine") == "scripted"
    name = (None if scripted else options.get("model")) or DEFAULT_MODEL
    here = []
    for title, model in (("bundled model", BUNDLED), ("model", name)):
        try:
            folder = find_model(model).folder
        except SetupError as error:
            yield Check(PART, title, False, str(error))
            continue
        if folder is not None:
            here.append(model)
        place = folder or "on the hub; the first run fetches what is missing"
        yield Check(PART, title, True, f"--model {model}: {place}")
    if probe:
        device, dtype = options.get("device") or AUTO, options.get("dtype") or AUTO
        for model in dict.fromkeys(here):
            yield _probe(model, device, dtype)


def _probe(model: str, device: str, dtype: str) -> Check:
    """Return what the probe of a model says."""
    module = "render_agent.cli.commands.doctor.model_probe"
    answer = run_probe(module, "probe_model", model, device, dtype, seconds=LOAD_SECONDS)
    return probe_check(model, answer.found, answer.error)


def probe_check(model: str, found: Mapping[str, Any], error: str | None = None) -> Check:
    """Return what `probe_model` found as a check; error: why it found nothing."""
    if reason := error or found["batch"]:
        return Check(PART, model, False, reason, f"use --batch-size 1, or {NO_MODEL}")
    reuse = "reuse = recompute" if found["reuse"] is None else f"no reuse: {found['reuse']}"
    return Check(PART, model, True, f"batch = single, {reuse}; {found['seconds']:.1f} s")


def load_libraries() -> dict[str, Any]:
    """Import what the transformers engine imports and return its versions and devices."""
    import torch

    from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision

    cure_torchvision()
    import transformers
    from transformers import AutoModelForImageTextToText, AutoProcessor  # noqa: F401

    devices = ["cpu"]
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        devices.append(f"cuda:{number} ({about.name}, {about.total_memory / 2**30:.0f} GiB)")
    if torch.backends.mps.is_available():
        devices.append("mps")
    versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
    return {"detail": f"runs on {', '.join(devices)}; {versions}"}
