"""What every test needs: a clean environment, and the real data where they lie."""

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"


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
