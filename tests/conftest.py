"""Fixtures for all tests: a clean environment, a browser, and real data if it is available."""

import gc
import os
import shutil
import signal
import ssl
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType

import pytest
from hypothesis import settings

gc.disable()  # until collection has finished; see pytest_collection_finish

# Without cached bytecode every process compiles the package, and rewrites the assertions of all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

os.environ["HF_HUB_OFFLINE"] = "1"

# Small models gain nothing from more threads, and test processes would compete for cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests need no durable files; tests/faults checks durability in separate processes.
os.fsync = lambda number: None

# Environment variables that tests may see.
KEPT_VARIABLES = ("RENDER_AGENT_TEST_DATA",)

# Browser timeout in milliseconds; generous, because the machine may be busy or compiling kernels.
BROWSER_TIMEOUT_MS = 300_000

# Deterministic examples by default; `--hypothesis-profile=search` looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("same")


MAX_SPACES = 16  # results in memory; free spaces of large scenes take 100 MB


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells make background jobs ignore SIGINT, and child processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A test is quick unless its file imports from one of these, which start processes, models or runs, or load scans.
COSTLY_MODULES = {
    "subprocess",
    "torch",
    "render_agent",
    "render_agent.runs.runner",
    "render_agent.scans.formats.load",
    *(
        f"factories.{name}"
        for name in (
            "batch_apis examples exports homes models native_apis pages reports runs servers sweeps"
        ).split()
    ),
}


@cache
def is_costly(module):
    """Return True if a test file imports a costly module, or a name from it."""
    origins = {
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        for value in vars(module).values()
    }
    return not origins.isdisjoint(COSTLY_MODULES)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the quick tests, before `-m` selects."""
    for item in items:
        is_slow = item.get_closest_marker("slow") is not None
        if not (is_slow or "browser" in item.fixturenames or is_costly(item.module)):
            item.add_marker("quick")


def pytest_collection_finish():
    """Exclude imported and collected objects from garbage collection, which would take 10 % of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="module")
def freeze_earlier_objects():
    """Exclude what earlier tests left in memory from the garbage collection that follows every failed call."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def share_certificates():
    """Read the certificates of authorities once; clients read them up to three times each, 30 ms at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        if find_spec("httpcore2"):
            from httpcore2 import default_ssl_context

            patch.setattr("httpcore2.default_ssl_context", cache(default_ssl_context))
        yield


def compute_once(function, key_of):
    """Return `function` of a scan or scene and other arguments, computed once per key; splats are computed each time."""
    results, lock = {}, Lock()

    def shared(scan, *args):
        if scan.gaussians is not None:
            return function(scan, *args)
        key = key_of(scan, *args)
        result = results.get(key)
        if result is None:
            result = function(scan, *args)
            with lock:  # runs load and draw in threads
                if len(results) >= MAX_SPACES:
                    del results[next(iter(results))]
                results[key] = result
        return result

    return shared


def contents(scan):
    """Return what identifies the geometry of a scan or scene."""
    return tuple(
        None if part is None else hash(part.tobytes()) for part in (scan.points, scan.faces)
    )


@pytest.fixture(scope="session", autouse=True)
def share_rooms():
    """Load the bundled rooms once, and measure equal scans once: half of the time of most runs."""
    from render_agent.scans.formats import load
    from render_agent.scans.free_space.free_space import FreeSpace
    from render_agent.tasks.rooms import BUNDLED
    from render_agent.visibility.coverage import Surface

    load_scene, folder = load.load_scene, BUNDLED.resolve()
    load_once = cache(load_scene)

    def load_shared(path, *args, **kwargs):
        is_bundled = Path(path).resolve().parent == folder
        return (load_once if is_bundled else load_scene)(path, *args, **kwargs)

    def room_key(scene):
        bounds = scene.bounds.tobytes()
        return contents(scene), bounds, scene.floor, scene.ceiling, scene.mirrored_at

    def surface_key(scene, space, renderer):
        return room_key(scene), space, type(renderer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "load_scene", load_shared)
        patch.setattr(load, "measure_extent", compute_once(load.measure_extent, contents))
        patch.setattr(FreeSpace, "of", compute_once(FreeSpace.of, room_key))
        patch.setattr(Surface, "of", compute_once(Surface.of, surface_key))
        yield


@pytest.fixture(autouse=True)
def restore_sigterm_handler():
    """Restore the SIGTERM handler after each test; Ray and the program install their own."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def pytest_exception_interact(node, call):
    """End the session if SIGTERM raised an exception during a test; pytest would continue with the next test."""
    error = call.excinfo.value
    terminated = type(error).__name__ == "Terminated" or (
        isinstance(error, SystemExit) and error.code == signal.SIGTERM
    )
    if terminated and not hasattr(node.config, "workerinput"):  # xdist ends its workers itself
        pytest.exit("terminated", returncode=143)


# Test files that check the contents of plots.
PLOT_TESTS = ("test_report_plots.py", "test_pages_policy.py", "test_runs_plot.py")

EMPTY_PLOT = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 374 216"/>'


@pytest.fixture(scope="module", autouse=True)
def plots(request):
    """Replace plots by an empty image in other test files; drawing them takes half the time of a small report.

    Yields the function that renders them.
    """
    from render_agent.report.pages.plots import svg

    render_plot = svg.render_plot
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name not in PLOT_TESTS:
            patch.setattr(svg, "render_plot", lambda paint, height: EMPTY_PLOT)
        yield render_plot


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """Remove the user's settings from the environment."""
    for name in list(os.environ):
        if name.startswith(("RENDER_AGENT_", "OPENAI_")) and name not in KEPT_VARIABLES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def type_in(monkeypatch, capsys):
    """Return a function that runs the program in this process and returns exit code, stdout and stderr."""
    import render_agent
    from render_agent.cli.main import main

    started = str(Path(render_agent.__file__).with_name("__main__.py"))

    def typed(*arguments, folder):
        with monkeypatch.context() as patched:
            patched.chdir(folder)
            patched.setattr(sys, "argv", [started, *map(str, arguments)])
            with pytest.raises(SystemExit) as exited:
                main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err, err
        return exited.value.code, out, err

    return typed


def mostly_slow(values, *quick):
    """Mark all parameters except the `quick` ones as slow; they check the same property for more kinds."""
    values = list(values)
    assert all(value in values for value in quick), f"{quick} are not all among {values}"
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]


def test_data(*parts: str) -> Path:
    """Return a file of the real data, or skip the test with the reason."""
    root = Path(
        os.environ.get(
            "RENDER_AGENT_TEST_DATA", Path(__file__).parents[1].parent / "shared" / "data"
        )
    )
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"real data not found ({path}); set RENDER_AGENT_TEST_DATA")
    return path


test_data.__test__ = False


# Prevent network requests by Chromium, and allow root to start it.
BROWSER_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="module")
def rasteriser():
    """Rasteriser with two threads."""
    from render_agent.render.rasteriser.rasteriser import Rasteriser

    renderer = Rasteriser(threads=2)
    yield renderer
    renderer.close()


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; skips the test if it is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("Chromium not found; run scripts/set-up-browser")
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=BROWSER_TIMEOUT_MS)
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=program, args=BROWSER_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def window(browser):
    """One browser context shared by all page tests; opening one takes longer than most tests."""
    return with_timeout(browser.new_context())  # closed with the browser


def with_timeout(context):
    """Set the long timeout on a browser context and return it."""
    context.set_default_timeout(BROWSER_TIMEOUT_MS)
    return context


@pytest.fixture
def page(window):
    """A page of 1400 by 900 pixels; the test fails if it logs an error or a file is missing."""
    opened = window.pages[0] if window.pages else window.new_page()
    opened.set_viewport_size({"width": 1400, "height": 900})
    opened.emulate_media(color_scheme="light")
    errors: list[str] = []
    listeners = {
        "pageerror": lambda error: errors.append(f"script: {error}"),
        "console": lambda message: (
            errors.append(f"console: {message.text}") if message.type == "error" else None
        ),
        # Requests that navigation interrupted are aborted, not missing.
        "requestfailed": lambda request: (
            errors.append(f"missing: {request.url}")
            if request.failure != "net::ERR_ABORTED"
            else None
        ),
    }
    for event, listener in listeners.items():
        opened.on(event, listener)
    yield opened
    opened.goto("about:blank")  # stop anything that is still running in the page
    for event, listener in listeners.items():
        opened.remove_listener(event, listener)
    for extra_page in window.pages[1:]:
        extra_page.close()
    window.clear_cookies()
    assert not errors
