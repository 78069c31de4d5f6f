"""The person's own browser, where there is one to be opened."""

from __future__ import annotations

import os
import sys
import webbrowser


def open_page(address: str) -> bool:
    """Open an address in the browser; False where there is no display, or no browser on it.

    Without a display none is tried: a browser made of text would take the terminal away.
    """
    display = (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    try:
        return bool(display) and webbrowser.open(address)
    except webbrowser.Error:
        return False
