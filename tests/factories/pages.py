"""Accessibility and layout checks of pages in a browser."""

import pytest
from axe_playwright_python.sync_playwright import Axe

# Window height by width: desktop, laptop, phone.
HEIGHTS = {1440: 900, 1280: 720, 390: 844}

# Only the narrowest window in dark mode is checked by default.
WIDTHS_AND_SCHEMES = pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(
            width, scheme, marks=[] if (width, scheme) == (390, "dark") else pytest.mark.slow
        )
        for width in HEIGHTS
        for scheme in ("light", "dark")
    ],
)


def assert_accessible(page, width=None):
    """Fail if axe finds a problem with all sections open, or if the page is wider than `width`."""
    if width is not None:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    if width is not None:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    # `preload` would request style sheets, which browsers refuse for local files.
    options = {"preload": False, "resultTypes": ["violations"]}
    found = Axe().run(page, options=options).response["violations"]
    assert not [(entry["id"], entry["nodes"][0]["html"][:200]) for entry in found]


def set_window(page, width, scheme):
    """Set the window width and the colour scheme of the page."""
    page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    page.emulate_media(color_scheme=scheme)
