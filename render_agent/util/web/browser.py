"""Opens pages in the user's web browser."""

from __future__ import annotations

import os
import sys
import webbrowser


def open_page(address: str) -> bool:
    """Open an address in the browser; return False if there is no display or no browser.

    Without a display, no browser is started, because a text-mode browser would take over the terminal.
    """
    display = (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    try:
        return bool(display) and webbrowser.open(address)
    except webbrowser.Error:
        return False
