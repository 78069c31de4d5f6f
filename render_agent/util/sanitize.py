"""Makes text safe to print and share: escapes control characters, and removes keys and local paths."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

# Control characters except newline and tab, bidirectional formatting, lone surrogates and tag characters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def escape_unsafe(text: str) -> str:
    """Return the text with unsafe characters as JSON escapes, such as \\u001b.

    JSON remains equivalent, because it contains such characters only inside strings.
    """
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def escape_line(text: str) -> str:
    """Return the text with unsafe characters and newlines escaped."""
    return escape_unsafe(text).replace("\n", "\\n")


def escape_name(name: str) -> str:
    """Return the name with unsafe characters, newlines and tabs escaped."""
    return escape_line(name).replace("\t", "\\t")


def is_plain(name: str) -> bool:
    """Return True if the name needs no escaping."""
    return escape_name(name) == name


def printable_json(data: Any) -> str:
    """Return data as printable JSON, indented unless it is nested too deeply."""
    try:
        text = json.dumps(data, indent=1, ensure_ascii=False)
    except RecursionError:
        text = json.dumps(data, ensure_ascii=False)
    return escape_unsafe(text)


MIN_KEY_CHARS = 8  # shorter values are unlikely to be keys and would match ordinary words

# Suffixes of environment variable names. A tuple, because this runs for every reply and `endswith` beats a regex.
_KEY_SUFFIXES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS")
_URL_SUFFIXES = ("_URL", "_PROXY")
_KEY_OPTION = re.compile(
    r"(?:^|[_.-])(?:api[_-]?key|(?:access|auth|bearer|hf)[_-]?token|secret|password|passwd|authorization)$"
    r"|^token$",
    re.IGNORECASE,
)


def is_key_option(name: str) -> bool:
    """Return True if an option of this name contains a key, such as `hf_token` or `api_key`."""
    return _KEY_OPTION.search(name) is not None


def environment_keys() -> list[str]:
    """Return the keys, tokens and passwords in the environment, longest first."""
    keys: set[str] = set()
    for name in os.environ:
        suffix = name.upper()
        if suffix.endswith(_KEY_SUFFIXES):
            keys.add(os.environ.get(name, "").strip())
        elif suffix.endswith(_URL_SUFFIXES) and "@" in (value := os.environ.get(name, "")):
            keys |= _url_credentials(value)
    return sorted((key for key in keys if len(key) >= MIN_KEY_CHARS), key=len, reverse=True)


def redact_keys(text: str) -> str:
    """Return the text with every key of the environment replaced by "[key]"."""
    return redact_secrets(text, environment_keys())


def redact_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return the text with every secret replaced by "[key]"."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[key]")
    return text


# an absolute path in a text: at least one folder and a name
_ABSOLUTE = re.compile(
    r"(?<![\w.</*~%-])(?:file://)?(?:/[\w.@+~-]+)+/([\w.@+~-]+)/?|[A-Za-z]:\\(?:[\w.@+-]+\\)*([\w.@+-]+)"
)


def make_public(value: Any, folders: Iterable[Path] = ()) -> Any:
    """Return a text, or a tree of texts, safe to publish: keys redacted, absolute paths reduced to their last name."""
    if isinstance(value, Mapping):
        return {
            make_public(name, folders): make_public(part, folders) for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [make_public(part, folders) for part in value]
    if not isinstance(value, str):
        return value
    home = str(Path.home())
    for folder in sorted({str(folder) for folder in folders} | {home}, key=len, reverse=True):
        for spelling in {folder, html.escape(folder)} - {"/"}:
            name = "~" if folder == home else Path(folder).name
            value = value.replace(spelling + "/", "").replace(spelling, name)
    return _ABSOLUTE.sub(lambda match: match[1] or match[2], redact_keys(value))


def _url_credentials(address: str) -> set[str]:
    """Return a URL's password, quoted and unquoted, and its userinfo (the part before @)."""
    try:
        parts = urlsplit(address.strip())
        password = parts.password or ""
    except ValueError:
        return set()
    return {parts.netloc.rpartition("@")[0], password, unquote(password)}
