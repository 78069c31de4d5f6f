"""Which options hold paths: made absolute, so that a run holds from any folder, or left out of what others read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.models import bundled_model
from render_agent.text.redact import names_a_key, public

PATHS = (
    "ply", "exclude", "tiny_ids", "removed_ids", "scannet", "scannet_splats", "scannetpp", "arkitscenes",
    "annotations",
)  # fmt: skip
"""Names of the options that hold a path, or several, whatever is there."""


def absolute_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paths among some options, made absolute; links are kept, as names say what files are.

    A benchmark is a path where a file of that name exists, a model where a file or a model's folder
    does, and questions where anything does; otherwise they are names, as that of a bundled model always
    is. A rubric is one where a file is written with its folder or its ending, and what stands behind a
    verifier's colon where its folder is there.
    """
    absolute: dict[str, Any] = {}
    for name, value in options.items():
        if name == "verifier":
            absolute[name] = tuple(map(_with_its_folder, value))
        elif name in PATHS and isinstance(value, tuple):
            absolute[name] = tuple(str(Path(part).absolute()) for part in value)
        elif value is not None and (name in PATHS or _is_there(name, value)):
            absolute[name] = str(Path(value).absolute())
    return absolute


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


def _with_its_folder(verifier: str) -> str:
    """Return a verifier such as learned:DIR with its folder made absolute; MODEL may be a name."""
    name, colon, folder = verifier.partition(":")
    known = name in registry.names("verifier")
    forms = registry.load("verifier", name).forms if colon and known else ()
    a_folder = any(form.endswith(":DIR") for form in forms)
    there = _is(Path.is_dir, folder) if a_folder else _holds_model(folder)
    return f"{name}:{Path(folder).absolute()}" if colon and there else verifier


def _holds_model(folder: str) -> bool:
    return bundled_model(folder) is None and _is(Path.is_file, f"{folder}/config.json")


def _is(kind: Callable[[Path], bool], path: str) -> bool:
    """Whether a path is there and of a kind; a name that is too long for one is none."""
    try:
        return kind(Path(path))
    except OSError:
        return False


def _is_there(name: str, value: Any) -> bool:
    if name == "questions":
        return _is(Path.exists, value)
    if name == "model":
        return _holds_model(value) or (_is(Path.is_file, value) and not bundled_model(value))
    if name == "rubric":  # those that are shipped go before files, by names without a dot
        return _is(Path.is_file, value) and ("." in value or Path(value).name != value)
    return name == "benchmark" and _is(Path.is_file, value)
