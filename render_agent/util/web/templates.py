"""Jinja templates for web pages, with autoescaping."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

PACKAGE = Path(__file__).parents[2]

ASSETS = PACKAGE / "util" / "web" / "assets"  # styles and scripts for reports and live pages


@cache
def environment(part: str, *folders: Path) -> jinja2.Environment:
    """Return the template environment for one part of the package, such as `report`, plus the shared templates.

    Templates in `folders` take precedence. Undefined variables are errors, and all values are escaped.
    """
    import jinja2

    own_folders = [PACKAGE / part / "templates", PACKAGE / "util" / "web" / "templates"]
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, *own_folders]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
