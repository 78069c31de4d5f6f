"""What can answer here: devices, libraries, models at hand, and the hub they come from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from render_agent.config import RunConfig
from render_agent.doctor.finding import Finding
from render_agent.doctor.probe import Answer, ask

PART = "engines"
LIBRARY_SECONDS, HUB_SECONDS, CONNECT_SECONDS = 120.0, 20.0, 4.0

NO_MODEL = "use --engine scripted, which needs no model"


def examine_engines(model: str | None) -> Iterator[Finding]:
    """Give what was found of the engines. model: as `--model` names it, None for the default."""
    name = RunConfig(model=model).model_name
    yield Finding(PART, "scripted", True, "explorer, random, or a file of replies", needed=True)
    libraries = ask(__name__, "load_libraries", seconds=LIBRARY_SECONDS)
    yield _transformers(libraries)
    hub = ask(__name__, "reach_hub", seconds=HUB_SECONDS)
    if hub.error is None:
        yield Finding(PART, "hub", True, f"{hub.found['endpoint']} answers")
    else:
        remedy = "put a model into a directory and name it with --model DIR"
        yield Finding(PART, "hub", False, hub.error, remedy)
    offline = {"HF_HUB_OFFLINE": "1"}
    at_hand = ask(__name__, "look_for_model", name, seconds=LIBRARY_SECONDS, environment=offline)
    yield _model(name, at_hand, fetchable=hub.error is None)


def _transformers(libraries: Answer) -> Finding:
    if libraries.error is not None:
        remedy = 'pip install "render_agent" brings what it needs; ' + NO_MODEL
        return Finding(PART, "transformers", False, libraries.error, remedy)
    devices = ", ".join(libraries.found["devices"])
    return Finding(PART, "transformers", True, f"runs on {devices}; {libraries.found['versions']}")


def _model(name: str, at_hand: Answer, *, fetchable: bool) -> Finding:
    if at_hand.error is not None:
        return Finding(PART, "model", False, at_hand.error, NO_MODEL)
    others = at_hand.found["others"]
    also = f"; also here: {', '.join(others)}" if others else ""
    if at_hand.found["folder"] is not None:
        return Finding(PART, "model", True, f"{name} is here: {at_hand.found['folder']}{also}")
    if fetchable:
        return Finding(PART, "model", True, f"{name} will be fetched by the first run{also}")
    detail = f"{at_hand.found['why']}{also}"
    return Finding(PART, "model", False, detail, "" if "scripted" in detail else NO_MODEL)


def load_libraries() -> dict[str, Any]:
    """Import what the transformers engine imports and return its versions and devices."""
    import torch

    from render_agent.engines.torchvision_cure import cure_torchvision

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
    """Return where a model lies on this machine, and the names of other models in the hub's cache.

    `folder` is None where it is not here; `why` then says so.
    """
    from render_agent.engines.loading import find_model
    from render_agent.errors import SetupError

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
