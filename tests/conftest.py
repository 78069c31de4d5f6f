"""What every test needs: a clean environment, and the real data where they lie."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"

# So small models gain nothing from more threads, and those of two test processes wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples on every machine and run; `--hypothesis-profile=search` looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("same")


LONG = ("test_workers.py", "test_openai_server.py", "test_killed_runs.py", "test_end_to_end.py")
"""Files that take longest, so that they come first: the other process still has work meanwhile."""


def pytest_collection_modifyitems(items):
    """Put the long files first."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """No setting of the person who runs the tests reaches them."""
    for name in list(os.environ):
        if name.startswith(("RENDER_AGENT_", "OPENAI_")) and name != "RENDER_AGENT_TEST_DATA":
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_COLOR", "1")


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
