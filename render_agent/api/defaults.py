"""The defaults of those options of a run that also stand in signatures."""

from __future__ import annotations

from render_agent.config import RunConfig

_DEFAULTS = RunConfig(batch=True)

OUTPUT = _DEFAULTS.output
SIZE = _DEFAULTS.image_size
FIELD_OF_VIEW = _DEFAULTS.field_of_view
