"""Paths among the options: made absolute when a run is saved, and removed from what is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from render_agent.models import bundled_model
from render_agent.util.redact import names_a_key, public


def absolute(value: Any, kind: str | None) -> Any:
    """Return the value of an option, made absolute if it is a path, or each of several.

    kind: the `path` of the option's declaration, None if it takes no paths. Symbolic links are kept.
    """
    if kind is None or not value:
        return value
    if isinstance(value, tuple):
        return tuple(absolute(part, kind) for part in value)
    prefix, colon, path = value.partition(":") if kind == "argument" else ("", "", value)
    return f"{prefix}{colon}{Path(path).absolute()}" if IS_PATH[kind](path) else value


def _holds_model(name: str) -> bool:
    if not name or bundled_model(name) is not None:
        return False
    folder = Path(name)
    return (folder / "config.json").is_file() or any(folder.glob("*.safetensors"))


IS_PATH: dict[str, Callable[[str], bool]] = {
    "always": lambda path: True,
    "file": lambda name: "." in name and Path(name).is_file(),
    "existing": lambda name: Path(name).exists(),
    "model": lambda name: _holds_model(name) or (Path(name).is_file() and not bundled_model(name)),
    "argument": _holds_model,
}
"""`path` of a declaration -> whether a value is a path rather than a name."""


def public_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return some options as strangers may read them: of paths the last part, no servers, places or keys.

    An option of the engine that names a key is left out.
    """
    public: dict[str, Any] = {}
    for name, value in options.items():
        if name in ("output", "port", "base_url", "ray"):
            continue
        if name == "engine_option":
            value = [each for each in value if not names_a_key(each.partition("=")[0])]
        several = isinstance(value, list | tuple)
        parts = [_without_folder(each) for each in (value if several else [value])]
        public[name] = parts if several else parts[0]
    return public


def _without_folder(value: Any) -> Any:
    head, colon, path = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return public(f"{head}{colon}{Path(path).name}" if path.startswith("/") else value)
