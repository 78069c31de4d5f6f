"""Templates of pages: filled in with everything escaped."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import jinja2

PACKAGE = Path(__file__).parents[1]

ASSETS = PACKAGE / "web" / "assets"
"""Style and scripts, as they are copied into a report and served beside a live page."""


@cache
def environment(part: str) -> jinja2.Environment:
    """Return the templates of one part of the package (`report`), beside those that all pages share.

    A name that a page does not give is an error, and whatever it gives is escaped.
    """
    import jinja2

    folders = [PACKAGE / part / "templates", PACKAGE / "web" / "templates"]
    return _environment_class()(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


@cache
def _environment_class() -> type[jinja2.Environment]:
    """Return the class of environments whose templates call `escaped` for each text that they fill in.

    markupsafe makes a Markup of each of them, which took a quarter of the time of a page with hundreds.
    """
    import jinja2
    from jinja2.compiler import CodeGenerator
    from markupsafe import Markup, escape

    def escaped(value: Any) -> Any:
        """Return a value as `markupsafe.escape` has it, a text that stays as it is as itself."""
        kind = type(value)
        if kind is Markup or (kind is str and not find_special(value)):
            return value
        return str(value) if kind is int else escape(value)

    find_special: Callable[[Any], object] = re.compile("[&<>\"']").search

    class Generator(CodeGenerator):  # type: ignore[misc]
        def _output_child_pre(self, node: Any, frame: Any, finalize: Any) -> None:
            if frame.eval_ctx.volatile or not frame.eval_ctx.autoescape or finalize.src is not None:
                super()._output_child_pre(node, frame, finalize)
            else:
                self.write("environment.escaped(")

    class Environment(jinja2.Environment):  # type: ignore[misc]
        code_generator_class = Generator

    Environment.escaped = staticmethod(escaped)
    return Environment
