"""What can answer here: devices, libraries, models at hand, and the hub they come from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from render_agent.cli.commands.doctor.probe import Answer, Finding, ask
from render_agent.config import AUTO, RunConfig
from render_agent.engines.checkpoint.locate import find_model
from render_agent.errors import SetupError

PART = "engines"
TRANSFORMERS, BUNDLED_MODEL = "transformers", "bundled model"
PROBE = "render_agent.cli.commands.doctor.model_probe"
LIBRARY_SECONDS, HUB_SECONDS, CONNECT_SECONDS = 120.0, 20.0, 4.0

LOAD_SECONDS = 1800.0

NO_MODEL = "use --engine scripted, which needs no model"
BUNDLED = "small"

OPTIONAL = (
    ("vllm", "vllm", "vllm", "--engine vllm"),
    ("openai", "openai", "openai", "--engine openai, for a server that --base-url names"),
    ("guided replies", "llguidance", "", "replies are held to their schema"),
    ("workers", "ray", "ray", "--workers and --ray"),
)
"""What need not be installed: its name, package, extra, and what it is for."""


def examine_engines(options: Mapping[str, Any], *, probe: bool = False) -> Iterator[Finding]:
    """Give the findings about the engines.

    options: `model`, where `engine` is transformers; `device` and `dtype`. probe: also let the bundled
    model answer, and the named one if it is on this machine.
    """
    scripted = options.get("engine") == "scripted"
    name = RunConfig(batch=True, model=None if scripted else options.get("model")).model_name
    yield Finding(PART, "scripted", True, "explorer, random, or a file of replies", needed=True)
    with ThreadPoolExecutor(3) as pool:
        libraries = pool.submit(ask, __name__, "load_libraries", seconds=LIBRARY_SECONDS)
        hub = pool.submit(ask, __name__, "reach_hub", seconds=HUB_SECONDS)
        at_hand = pool.submit(ask, __name__, "look_for_model", name, seconds=LIBRARY_SECONDS)
        yield _transformers(libraries.result())
        yield from (_optional(*about) for about in OPTIONAL)
        bundled = _bundled()
        yield bundled
        yield _hub(hub.result())
        answer = at_hand.result()
        yield _model(name, answer)
    if probe:
        device, dtype = options.get("device") or AUTO, options.get("dtype") or AUTO
        here = {BUNDLED: bundled.works, name: bool(answer.found.get("folder"))}
        for model in (model for model, is_here in here.items() if is_here):
            tried = ask(PROBE, "probe_model", model, device, dtype, seconds=LOAD_SECONDS)
            yield _probed(model, tried.found, tried.error)


def _transformers(libraries: Answer) -> Finding:
    if libraries.error is not None:
        remedy = 'pip install "render_agent" brings what it needs; ' + NO_MODEL
        return Finding(PART, TRANSFORMERS, False, libraries.error, remedy)
    devices = ", ".join(libraries.found["devices"])
    return Finding(PART, TRANSFORMERS, True, f"runs on {devices}; {libraries.found['versions']}")


def _optional(name: str, package: str, extra: str, use: str) -> Finding:
    """Return whether a package is there that an engine may need."""
    try:
        return Finding(PART, name, True, f"{package} {version(package)}; {use}")
    except PackageNotFoundError:
        remedy = f'pip install "{f"render_agent[{extra}]" if extra else package}"'
        return Finding(PART, name, False, f"{package} is not installed; it is for {use}", remedy)


def _bundled() -> Finding:
    """Return whether the model that comes with the program is whole."""
    try:
        model = find_model(BUNDLED)
    except SetupError as error:
        return Finding(PART, BUNDLED_MODEL, False, str(error))
    return Finding(PART, BUNDLED_MODEL, True, f"--model {BUNDLED}: {model.folder}")


def _probed(name: str, result: Mapping[str, Any], error: str | None = None) -> Finding:
    """Return what the probe of a model says."""
    if error is None and result["batch"] is None:
        reuse = "reuse = recompute" if result["reuse"] is None else f"no reuse: {result['reuse']}"
        return Finding(PART, name, True, f"batch = single, {reuse}; {result['seconds']:.1f} s")
    reason = error or result["batch"]
    return Finding(PART, name, False, reason, "use --batch-size 1, or " + NO_MODEL)


def _hub(answer: Answer) -> Finding:
    if answer.error is None:
        return Finding(PART, "hub", True, f"{answer.found['endpoint']} answers")
    remedy = "put a model into a directory and name it with --model DIR"
    return Finding(PART, "hub", False, answer.error, remedy)


def _model(name: str, answer: Answer) -> Finding:
    if answer.error is not None:
        return Finding(PART, "model", False, answer.error, NO_MODEL)
    others = answer.found["others"]
    also = f"; also here: {', '.join(others)}" if others else ""
    if answer.found["why"]:
        return Finding(PART, "model", False, answer.found["why"] + also)
    folder = answer.found["folder"]
    where = (
        f"is here: {folder}" if folder else "is on the hub; the first run fetches what is not here"
    )
    return Finding(PART, "model", True, f"{name} {where}{also}")


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
    return {"devices": devices, "versions": versions}


def reach_hub() -> dict[str, Any]:
    """Return the hub's address where it answers, else the reason why it is not reached."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return {"error": "HF_HUB_OFFLINE is set: nothing is fetched"}
    endpoint = constants.ENDPOINT
    try:
        with urlopen(Request(endpoint, method="HEAD"), timeout=CONNECT_SECONDS):
            return {"endpoint": endpoint}
    except HTTPError as error:
        return {"error": f"{endpoint} answers with code {error.code}"}
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        return {"error": f"{endpoint} cannot be reached ({reason})"}


def look_for_model(name: str) -> dict[str, Any]:
    """Return the path of a model on this machine, and the names of other models in the hub's cache.

    `folder` is None where the hub will be asked for it; `why` says why it is not available at all.
    """
    others = [other for other in _cached_models() if other != name]
    try:
        folder = find_model(name).folder
    except SetupError as error:
        return {"folder": None, "why": str(error), "others": others}
    return {"folder": None if folder is None else os.fspath(folder), "others": others, "why": ""}


def _cached_models() -> list[str]:
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        cached = scan_cache_dir().repos
    except CacheNotFound:
        return []
    return sorted(repo.repo_id for repo in cached if repo.repo_type == "model")
