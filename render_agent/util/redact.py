"""Redaction: keys and tokens of the environment are left out of all that is written, paths out of what is shared."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

MIN_KEY_LETTERS = 8
"""Characters: what is shorter is no key, and would take harmless words out of texts."""

_HOLD_A_KEY = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS")
_HOLD_AN_ADDRESS = ("_URL", "_PROXY")
"""How names of variables end; they are looked through for every reply, in which expressions take longer."""
_NAMES_A_KEY = re.compile(
    r"(?:^|[_.-])(?:api[_-]?key|(?:access|auth|bearer|hf)[_-]?token|secret|password|passwd|authorization)$"
    r"|^token$",
    re.IGNORECASE,
)


def names_a_key(name: str) -> bool:
    """Whether an option of this name holds a key, as `hf_token` and `api_key` do."""
    return _NAMES_A_KEY.search(name) is not None


def known_keys() -> list[str]:
    """Return the keys, tokens and passwords that the environment holds, the longest first."""
    keys: set[str] = set()
    for name in os.environ:
        end = name.upper()
        if end.endswith(_HOLD_A_KEY):
            keys.add(os.environ.get(name, "").strip())
        elif end.endswith(_HOLD_AN_ADDRESS) and "@" in (value := os.environ.get(name, "")):
            keys |= _of_address(value)
    return sorted((key for key in keys if len(key) >= MIN_KEY_LETTERS), key=len, reverse=True)


def without_keys(text: str) -> str:
    """Return a text in which "[key]" stands for every key that the environment holds."""
    return without(text, known_keys())


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which "[key]" stands for each of some secrets."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[key]")
    return text


_ABSOLUTE = re.compile(
    r"(?<![\w.</*~%-])(?:file://)?(?:/[\w.@+~-]+)+/([\w.@+~-]+)/?|[A-Za-z]:\\(?:[\w.@+-]+\\)*([\w.@+-]+)"
)
"""An absolute path of some machine in a text: at least one folder and a name."""


def public(value: Any, folders: Iterable[Path] = ()) -> Any:
    """Return a text, or a tree of them, as strangers may read it: without keys, of each absolute path the last name.

    folders: of this machine, which are found whatever signs are in their names.
    """
    if isinstance(value, Mapping):
        return {public(name, folders): public(part, folders) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [public(part, folders) for part in value]
    if not isinstance(value, str):
        return value
    home = str(Path.home())
    for folder in sorted({str(folder) for folder in folders} | {home}, key=len, reverse=True):
        for written in {folder, html.escape(folder)} - {"/"}:
            name = "~" if folder == home else Path(folder).name
            value = value.replace(written + "/", "").replace(written, name)
    return _ABSOLUTE.sub(lambda match: match[1] or match[2], without_keys(value))


def _of_address(address: str) -> set[str]:
    """Return the password of an address, as it is written and as it is meant, and what precedes its @."""
    try:
        parts = urlsplit(address.strip())
        password = parts.password or ""
    except ValueError:
        return set()
    return {parts.netloc.rpartition("@")[0], password, unquote(password)}
