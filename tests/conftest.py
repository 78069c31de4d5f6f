"""What every test needs: a clean environment, and the real data where they lie."""

import gc
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

gc.disable()  # until all is imported and collected; see pytest_collection_finish

os.environ["HF_HUB_OFFLINE"] = "1"

# So small models gain nothing from more threads, and those of two test processes wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What a test writes need not outlive a power cut; tests/faults cuts it in processes of its own.
os.fsync = lambda number: None

LEFT = ("RENDER_AGENT_TEST_DATA",)
"""Variables that tests see as they are."""

PATIENCE = 300_000
"""Milliseconds that a page has for anything: other tests may have the processors, or the first view compiles."""

# The same examples on every machine and run; `--hypothesis-profile=search` looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("same")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that starts the tests in the background has them ignore it, and programs that they stop by it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Search what was imported and collected for garbage no more, and the rest seldom: it costs a tenth of all."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def own_sigterm():
    """What a test has SIGTERM do (as Ray and the program's own handlers do) ends with the test."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def pytest_exception_interact(node, call):
    """End the session if SIGTERM was turned into an exception in the middle of a test; pytest would go on."""
    error = call.excinfo.value
    terminated = type(error).__name__ == "Terminated" or (
        isinstance(error, SystemExit) and error.code == signal.SIGTERM
    )
    if terminated and not hasattr(node.config, "workerinput"):  # xdist ends its workers itself
        pytest.exit("terminated", returncode=143)


DRAWN = ("test_report_plots.py", "test_pages_policy.py")
"""Files that look at what plots show."""

EMPTY_PLOT = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 374 216"/>'


@pytest.fixture(scope="module", autouse=True)
def plots(request):
    """Plots of other files are computed and left empty: to draw them takes half of the time of a small report."""
    from render_agent.report.pages.plots import run_plots

    with pytest.MonkeyPatch.context() as patch:
        if request.path.name not in DRAWN:
            patch.setattr(run_plots, "draw_svg", lambda paint, **options: EMPTY_PLOT)
        yield


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """No setting of the person who runs the tests reaches them."""
    for name in list(os.environ):
        if name.startswith(("RENDER_AGENT_", "OPENAI_")) and name not in LEFT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def type_in(monkeypatch, capsys):
    """Run the program in this process; give its exit code, standard output and standard error."""
    import render_agent
    from render_agent.cli.main import main

    started = str(Path(render_agent.__file__).with_name("__main__.py"))

    def typed(*arguments, folder):
        with monkeypatch.context() as here:
            here.chdir(folder)
            here.setattr(sys, "argv", [started, *map(str, arguments)])
            with pytest.raises(SystemExit) as ended:
                main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err, err
        return ended.value.code, out, err

    return typed


def mostly_slow(values, *quick):
    """Return parameters of which all but the `quick` ones are marked slow: they prove the same of more kinds."""
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
        pytest.skip(f"the real data are not here ({path}); set RENDER_AGENT_TEST_DATA")
    return path


test_data.__test__ = False


BROWSER_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
"""What keeps Chromium from asking the network, and lets root start it."""


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window, or the reason why there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no Chromium here: see scripts/set-up-browser")
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=program, args=BROWSER_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def window(browser):
    """One window that all tests of pages look through in turn: opening one takes longer than most."""
    return patient(browser.new_context())  # which ends with the browser


def patient(context):
    """Return a browser's context that waits for long."""
    context.set_default_timeout(PATIENCE)
    return context


@pytest.fixture
def page(window):
    """A page of 1400 by 900 pixels; the test fails where it logs an error or lacks a file."""
    opened = window.pages[0] if window.pages else window.new_page()
    opened.set_viewport_size({"width": 1400, "height": 900})
    opened.emulate_media(color_scheme="light")
    wrong: list[str] = []
    listeners = {
        "pageerror": lambda error: wrong.append(f"script: {error}"),
        "console": lambda told: (
            wrong.append(f"console: {told.text}") if told.type == "error" else None
        ),
        # a request that a way to another page cut off is aborted; a file that is not there is not found
        "requestfailed": lambda request: (
            wrong.append(f"not there: {request.url}")
            if request.failure != "net::ERR_ABORTED"
            else None
        ),
    }
    for event, listener in listeners.items():
        opened.on(event, listener)
    yield opened
    opened.goto("about:blank")  # nothing that the test left going on is told to the next
    for event, listener in listeners.items():
        opened.remove_listener(event, listener)
    for other in window.pages[1:]:
        other.close()
    window.clear_cookies()
    assert not wrong
