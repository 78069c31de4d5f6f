"""Keys and tokens of the environment: they are written nowhere, whoever repeats them."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

MIN_KEY_LETTERS = 8
"""Characters: what is shorter is no key, and would take harmless words out of texts."""

_HOLDS_A_KEY = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_NAMES_A_KEY = re.compile(
    r"(?:^|[_.-])(?:api[_-]?key|(?:access|auth|bearer|hf)[_-]?token|secret|password|passwd|authorization)$"
    r"|^token$",
    re.IGNORECASE,
)
_HOLDS_AN_ADDRESS = re.compile(r"_(?:URL|PROXY)$", re.IGNORECASE)


def names_a_key(name: str) -> bool:
    """Whether an option of this name holds a key, as `hf_token` and `api_key` do."""
    return _NAMES_A_KEY.search(name) is not None


def known_keys() -> list[str]:
    """Return the keys, tokens and passwords that the environment holds, the longest first."""
    keys: set[str] = set()
    for name, value in os.environ.items():
        if _HOLDS_A_KEY.search(name):
            keys.add(value.strip())
        elif _HOLDS_AN_ADDRESS.search(name) and "@" in value:
            keys |= _of_address(value)
    return sorted((key for key in keys if len(key) >= MIN_KEY_LETTERS), key=len, reverse=True)


def without_keys(text: str) -> str:
    """Return a text in which "[key]" stands for every key that the environment holds."""
    for key in known_keys():
        text = text.replace(key, "[key]")
    return text


def _of_address(address: str) -> set[str]:
    """Return the password of an address, as it is written and as it is meant, and what precedes its @."""
    try:
        parts = urlsplit(address.strip())
        password = parts.password or ""
    except ValueError:
        return set()
    return {parts.netloc.rpartition("@")[0], password, unquote(password)}
