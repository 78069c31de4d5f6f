"""Templates of pages: filled in with everything escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

PACKAGE = Path(__file__).parents[2]

ASSETS = PACKAGE / "util" / "web" / "assets"
"""Style and scripts, as they are copied into a report and served beside a live page."""


@cache
def environment(part: str) -> jinja2.Environment:
    """Return the templates of one part of the package (`report`), beside those that all pages share.

    A name that a page does not give is an error, and whatever it gives is escaped.
    """
    import jinja2

    folders = [PACKAGE / part / "templates", PACKAGE / "util" / "web" / "templates"]
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
