"""The HTML that a notebook shows."""

from __future__ import annotations

from typing import Any

from render_agent.web.templates import environment


def page(template: str, **names: Any) -> str:
    """Return a template of this part filled in, everything escaped: texts of models and files are anybody's."""
    return str(environment("api").get_template(template).render(**names))
