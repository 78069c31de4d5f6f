"""What every page is held to in a browser."""

import pytest
from axe_playwright_python.sync_playwright import Axe

HEIGHTS = {1440: 900, 1280: 720, 390: 844}
"""By the width of a window how high it is: a desk's, a laptop's, a phone's."""

IN_BOTH_LIGHTS = pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(
            width, scheme, marks=[] if (width, scheme) == (390, "dark") else pytest.mark.slow
        )
        for width in HEIGHTS
        for scheme in ("light", "dark")
    ],
)
"""The quick test looks once: where there is least room, and in the lights in which colours are set anew."""


def assert_nothing_serious(page, width=None):
    """Fail where axe finds anything on a page, all its parts open, or it is wider than `width`."""
    if width is not None:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    if width is not None:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    # without `preload` axe reads no style by a request, which a browser refuses on disk
    options = {"preload": False, "resultTypes": ["violations"]}
    found = Axe().run(page, options=options).response["violations"]
    assert not [(entry["id"], entry["nodes"][0]["html"][:200]) for entry in found]


def seen_at(page, width, scheme):
    """Let the page be looked at in a window so wide, in the light or in the dark."""
    page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    page.emulate_media(color_scheme=scheme)
