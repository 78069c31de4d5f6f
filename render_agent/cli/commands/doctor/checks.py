"""The checks of `doctor`, and probes that run in a subprocess because they may crash or hang."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.cli.commands.doctor.system_libraries import install_command, missing_libraries
from render_agent.dialogue.question import Question
from render_agent.engines.checkpoint.locate import find_model
from render_agent.errors import RenderAgentError, SetupError
from render_agent.extras import EXTRAS
from render_agent.options import AUTO, DEFAULT_MODEL, OPTIONS
from render_agent.tasks.boxes.annotations import read_annotations
from render_agent.tasks.rooms import load_bundled_rooms
from render_agent.tasks.scan_folders import LAYOUTS, find_scan
from render_agent.tasks.vsibench import load_vsibench
from render_agent.util.display import count_noun
from render_agent.util.memory import available_memory
from render_agent.util.processes import count_cores, die_with_parent
from render_agent.util.safe_parse import parse_json
from render_agent.util.web.templates import ASSETS


@dataclass(frozen=True, slots=True)
class Check:
    part: str
    """Heading of the group that lists the check."""
    name: str
    works: bool
    detail: str
    remedy: str = ""
    """Action to take if the check fails."""
    needed: bool = False
    """True if even runs over the bundled rooms with the scripted engine need it."""

    @property
    def prevents(self) -> bool:
        """True if no run is possible because this check failed."""
        return self.needed and not self.works


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The return value of a probe, or the reason for its absence."""

    result: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    explained: bool = False
    """True if `error` is one of our own messages, which suggest a remedy."""


def run_probe(module: str, function: str, *arguments: str, seconds: float) -> ProbeResult:
    """Call `function(*arguments)` of `module` in a subprocess and return its result, a JSON object."""
    # not -m, which imports from the working directory first
    program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
    command = [sys.executable, "-c", program, module, function, *arguments]
    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return ProbeResult(error=f"no answer within {seconds:.0f} seconds")
    if process.returncode < 0:
        return ProbeResult(error=f"a library crashed (signal {-process.returncode})")
    if process.returncode:
        return ProbeResult(
            error=_last_line(process.stderr) or f"exited with code {process.returncode}"
        )
    reply = parse_json(_last_line(process.stdout))
    return (
        ProbeResult(error=reply["error"], explained=True)
        if "error" in reply
        else ProbeResult(reply)
    )


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def main() -> None:
    """Answer the probe of the command line: print the result of a function as the last line, as libraries may print too."""
    die_with_parent(os.getppid())
    module, function, *arguments = sys.argv[1:]
    try:
        reply = getattr(import_module(module), function)(*arguments)
    except RenderAgentError as error:
        reply = {"error": str(error)}
    sys.stdout.write("\n" + json.dumps(reply) + "\n")
    sys.stdout.flush()
    os._exit(0)  # graphics libraries may crash while the interpreter shuts down


MIN_FREE_GIB = 2.0  # free memory below which large scans do not fit
MIN_DISK_GIB = 1.0  # free disk below which a run is likely to fail

IMPORT_SECONDS = 120.0


def machine_checks(output: Path) -> Iterator[Check]:
    """Yield the checks of the machine; `output` is the folder for run folders."""
    yield Check("machine", "Python", True, f"{platform.python_version()} ({sys.executable})")
    yield Check(
        "machine", "cores", True, f"{count_cores()} ({platform.machine()}, {platform.platform()})"
    )
    total, free = (count / 2**30 for count in available_memory())
    remedy = f"close other programs; large scans need {MIN_FREE_GIB:.0f} GiB"
    detail = f"{total:.1f} GiB, {free:.1f} GiB free"
    yield Check("machine", "memory", free >= MIN_FREE_GIB, detail, remedy)
    yield _disk(output)
    yield _system_libraries()
    viewer = ASSETS / "view3d.js"
    detail = "bundled" if viewer.is_file() else "not built: reports have no 3D view"
    remedy = "run make setup in a checkout (it needs npm), or install a released wheel"
    yield Check("machine", "three.js", viewer.is_file(), detail, remedy)
    for extra in ("", *sorted(set(EXTRAS.values()))):
        yield _packages(extra)


def _disk(output: Path) -> Check:
    folder = next(path for path in (output.resolve(), *output.resolve().parents) if path.exists())
    if not os.access(folder, os.W_OK):
        remedy = "choose a writable folder with --output DIR"
        return Check("machine", "disk", False, f"{folder} is not writable", remedy, needed=True)
    free = shutil.disk_usage(folder).free / 2**30
    remedy = "free disk space, or choose another disk with --output DIR"
    return Check(
        "machine", "disk", free >= MIN_DISK_GIB, f"{free:.1f} GiB free at {folder}", remedy
    )


def _system_libraries() -> Check:
    missing_packages = missing_libraries()
    detail = "; ".join(
        f"{library.name} is missing (needed by {library.needed_by})" for library in missing_packages
    )
    remedy = install_command(missing_packages)
    return Check(
        "machine", "system libraries", not missing_packages, detail or "all installed", remedy
    )


def _packages(extra: str) -> Check:
    """Check whether the packages of an extra, or of the core installation, are installed."""
    versions = {name: _version(name) for name in _required_packages(extra)}
    missing_packages = [name for name, version in versions.items() if version is None]
    detail = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    if missing_packages:
        detail = "; ".join(
            [*filter(None, [detail]), f"not installed: {', '.join(missing_packages)}"]
        )
    name, package = (
        (f"extra {extra}", f"render_agent[{extra}]") if extra else ("packages", "render_agent")
    )
    return Check(
        "machine", name, not missing_packages, detail, f'pip install "{package}"', needed=not extra
    )


def _required_packages(extra: str) -> Iterator[str]:
    """Yield the packages that render_agent requires, or that an extra adds."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, requires("render_agent") or ()):
        marker = requirement.marker
        always = marker is None or marker.evaluate({"extra": ""})
        if always != bool(extra) and (marker is None or marker.evaluate({"extra": extra})):
            yield requirement.name


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def package_checks() -> Iterator[Check]:
    """Check that each plug-in of an installed package can be imported."""
    for kind in registry.GROUPS:
        for name in registry.package_names(kind):
            try:
                if registry.package(kind, name) is None:  # render_agent_lab's
                    continue
            except SetupError as error:
                yield Check("packages", f"{kind} {name}", False, str(error))
                continue
            answer = run_probe(__name__, "import_part", kind, name, seconds=IMPORT_SECONDS)
            remedy = "" if answer.explained else "fix or uninstall the package that provides it"
            detail = answer.error or answer.result["package"]
            yield Check("packages", f"{kind} {name}", answer.error is None, detail, remedy)


def import_part(kind: registry.Kind, name: str) -> dict[str, Any]:
    """Import a plug-in and return the package that provides it. Raises SetupError like `registry.load`."""
    registry.load(kind, name)
    return {"package": registry.package(kind, name)}


DEFAULT_RENDERER = str(OPTIONS["renderer"].default)
RENDER_SECONDS = 180.0  # timeout per renderer, which may have to compile kernels first


def renderer_checks() -> Iterator[Check]:
    """Check every renderer, the default first."""
    for name in registry.built_in("renderer"):
        is_default = name == DEFAULT_RENDERER
        answer = run_probe(__name__, "draw_once", name, seconds=RENDER_SECONDS)
        if answer.error is None:
            yield Check("renderers", name, True, _detail(answer, is_default), needed=is_default)
            continue
        remedy = f"use --renderer {DEFAULT_RENDERER}, the default"
        remedy = "reinstall: make setup" if is_default else remedy
        remedy = "" if answer.explained else remedy
        yield Check("renderers", name, False, answer.error, remedy, needed=is_default)


def _detail(answer: ProbeResult, default: bool) -> str:
    figures = answer.result
    detail = f"rendered a triangle in {1000 * figures['seconds']:.1f} ms on {figures['device']}"
    if not default:
        return detail
    if figures["kernels"] is None:
        return f"{detail}; the kernel cache is not writable, so every run compiles kernels again"
    since = "before" if figures["compiled"] else f"just now, in {figures['first_seconds']:.0f} s"
    return f"default; {detail}; kernels compiled {since} ({figures['kernels']})"


def draw_once(name: str) -> dict[str, Any]:
    """Render a red triangle and return the time it took. Raises RuntimeError."""
    import numpy as np

    from render_agent.render.make_renderer import make_renderer
    from render_agent.scans.camera import Camera
    from render_agent.scans.scene import Scene

    corners = np.array([[2, -2, -2], [2, 2, -2], [2, 0, 2]], np.float32)
    bounds = np.array([corners.min(axis=0), corners.max(axis=0)], np.float64)
    colours = np.tile(np.array([[200, 30, 60]], np.uint8), (3, 1))
    faces = np.array([[0, 1, 2]], np.int32)
    scene = Scene("triangle", corners, colours, faces, -2.0, 2.0, bounds)
    figures = _kernels() if name == DEFAULT_RENDERER else {}
    renderer = make_renderer(name)
    figures["device"] = getattr(renderer, "device", "the CPU")
    for number in ("first_seconds", "seconds"):
        start = time.perf_counter()
        frame = renderer.draw(scene, Camera((0, 0, 0)), 64, 48)
        figures[number] = time.perf_counter() - start
    middle = frame.colours[24, 32]
    if not np.array_equal(middle, colours[0]) or abs(frame.depth[24, 32] - 2) > 1e-2:
        raise RuntimeError(f"rendered the colour {middle.tolist()}, not {colours[0].tolist()}")
    return figures


def _kernels() -> dict[str, Any]:
    """Return the folder of the compiled-kernel cache, and whether it contains any."""
    from render_agent.render.rasteriser.kernels import cache_folder

    folder = cache_folder()
    is_cached = folder is not None and any(folder.rglob("*.nbc"))
    return {"kernels": None if folder is None else str(folder), "compiled": is_cached}


BUNDLED = "small"

LIBRARY_SECONDS, LOAD_SECONDS = 120.0, 1800.0

NO_MODEL = "use --engine scripted, which needs no model"


def engine_checks(options: Mapping[str, Any], *, probe: bool = False) -> Iterator[Check]:
    yield Check("engines", "scripted", True, "explorer, random, or a file of replies", needed=True)
    libraries = run_probe(__name__, "load_libraries", seconds=LIBRARY_SECONDS)
    detail = libraries.error or libraries.result["detail"]
    yield Check("engines", "transformers", libraries.error is None, detail, NO_MODEL)
    is_scripted = options.get("engine") == "scripted"
    name = (None if is_scripted else options.get("model")) or DEFAULT_MODEL
    local_models = []
    for title, model in (("bundled model", BUNDLED), ("model", name)):
        try:
            folder = find_model(model).folder
        except SetupError as error:
            yield Check("engines", title, False, str(error))
            continue
        if folder is not None:
            local_models.append(model)
        place = folder or "on the Hugging Face hub; the first run downloads it"
        yield Check("engines", title, True, f"--model {model}: {place}")
    if probe:
        device, dtype = options.get("device") or AUTO, options.get("dtype") or AUTO
        for model in dict.fromkeys(local_models):
            answer = run_probe(__name__, "probe_model", model, device, dtype, seconds=LOAD_SECONDS)
            yield probe_check(model, answer.result, answer.error)


def probe_check(model: str, result: Mapping[str, Any], error: str | None = None) -> Check:
    """Convert the result of `probe_model` to a check; `error` is the reason if there is no result."""
    if error is not None:
        return Check("engines", model, False, error, NO_MODEL)
    why = result["reproducible"]
    exact = "bit-for-bit reproducible with --reproducible on" if why is None else why
    scope = "logits" if result["complete"] else "logits of one token, as the device is slow,"
    differ = f"differ from a plain forward pass by {result['difference']:.1g} of their range"
    checked = "; ".join(result["caveats"] or [f"{scope} {differ}"])
    detail = f"{checked}; reuse: {result['reuse']}; {exact}; {result['seconds']:.1f} s"
    return Check("engines", model, not result["caveats"], detail)


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


DIALOGUE_TOKENS = 2000  # estimated tokens per dialogue


def probe_model(name: str, device: str, dtype: str) -> dict[str, Any]:
    """Return the result of a model's start check, the `seconds` taken, and why it is not `reproducible` (None: it is)."""
    from render_agent.engines.transformers.model.load import open_model

    started_at = time.perf_counter()
    model = open_model(name, device=device, dtype=dtype)
    return {**_probe_loaded(model), "seconds": time.perf_counter() - started_at}


def _probe_loaded(loaded: Any) -> dict[str, Any]:
    from render_agent.engines.transformers.factory import build_engine, plain_engine
    from render_agent.engines.transformers.start_check import check_start

    engine = build_engine(loaded, None, {}, DIALOGUE_TOKENS)
    engine, record = check_start(engine, partial(plain_engine, loaded, None, {}))
    engine.release()
    return {**record, "reuse": engine.reuse, "reproducible": _why_not_reproducible(loaded)}


def _why_not_reproducible(loaded: Any) -> str | None:
    """Return why this model cannot be reproducible on its device; None if replies do not depend on the batch."""
    from render_agent.engines.transformers.factory import build_engine

    try:
        build_engine(loaded, None, {}, DIALOGUE_TOKENS, reproducible=True).close()
    except SetupError as error:
        return str(error)
    return None


def data_checks(options: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of data; `options` may include questions, annotations and data set folders."""
    yield _rooms()
    yield from _vsibench(options)


def _rooms() -> Check:
    remedy = "the installation is incomplete; reinstall render_agent"
    try:
        questions = load_bundled_rooms()
    except RenderAgentError as error:
        return Check("data", "bundled rooms", False, str(error), needed=True)
    scans = {question.scan for question in questions}
    missing_scans = sorted(str(scan) for scan in scans if scan is None or not scan.is_file())
    if missing_scans or not questions:
        detail = f"{len(missing_scans)} of {len(scans)} rooms are missing: {', '.join(missing_scans[:3])}"
        return Check("data", "bundled rooms", False, detail, remedy, needed=True)
    detail = f"{count_noun(len(questions), 'question')} about {count_noun(len(scans), 'room')}"
    return Check("data", "bundled rooms", True, detail, needed=True)


def _vsibench(options: Mapping[str, Any]) -> Iterator[Check]:
    try:
        questions = load_vsibench(options.get("questions"))
    except RenderAgentError as error:
        yield Check("data", "VSI-Bench", False, str(error))
        questions = []
    else:
        yield Check("data", "VSI-Bench", True, count_noun(len(questions), "question"))
    for dataset in LAYOUTS:
        if questions or options.get(dataset):
            yield _scans(dataset, options.get(dataset) or (), questions)
    if options.get("annotations"):
        yield _annotations(options["annotations"], questions)


def _annotations(folder: str, questions: list[Question]) -> Check:
    try:
        annotations = read_annotations(Path(folder))
    except RenderAgentError as error:
        return Check("data", "annotations", False, str(error), "pass --annotations DIR")
    scenes = {question.scene for question in questions} or annotations.keys()
    annotated_count = len(scenes & annotations.keys())
    detail = f"{annotated_count} of {len(scenes)} scenes are annotated in {folder}"
    return Check("data", "annotations", annotated_count == len(scenes), detail)


def _scans(dataset: str, roots: Sequence[str], questions: list[Question]) -> Check:
    flag = f"--{dataset} DIR"
    scenes = {question.scene for question in questions if question.dataset == dataset}
    if not roots:
        detail = f"{count_noun(len(scenes), 'scene')} needed; no folder given"
        return Check(
            "data", dataset, False, detail, f"pass {flag}, or set RENDER_AGENT_{dataset.upper()}"
        )
    for root in roots:
        if not Path(root).is_dir():
            return Check("data", dataset, False, f"{root} is not a folder", f"pass {flag}")
    places = " and ".join(roots)
    if not questions:
        return Check("data", dataset, True, f"{places}; cannot count scans without questions")
    found_count = sum(find_scan(dataset, scene, {dataset: roots}) is not None for scene in scenes)
    detail = f"{found_count} of {len(scenes)} scans found in {places}"
    remedy = "keep the folder layout of the data set's official download"
    return Check("data", dataset, found_count == len(scenes), detail, remedy)
