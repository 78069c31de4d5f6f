"""Redaction: keys and tokens of the environment are left out of all that is written, paths out of what is shared."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
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
    """Return a text in which "[key]" stands for every key that the environment holds, however it is written."""
    return without(text, known_keys())


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which "[key]" stands for each of some secrets: as it is, split, or encoded.

    Found are hexadecimal digits, percent signs (also those of an address in an address), the escapes of JSON,
    HTML and Python, base64 wherever in it the secret begins, and up to MAX_SPLIT signs between two letters that are
    not seen, colour a terminal or break a line.
    """
    known = tuple(secret for secret in secrets if secret)
    return _written(known).sub("[key]", text) if known else text


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


MAX_SPLIT = 12

_BETWEEN = (
    rf"(?:[\s\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufeff]|\\[nrt]|\x1b\[[\d;]*m){{0,{MAX_SPLIT}}}"
)
"""What may split a secret: spaces, ends of lines as they are and as JSON writes them, signs that are not seen."""


@lru_cache(maxsize=16)
def _written(secrets: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of all that some secrets may be written as, the longest first."""
    forms = [form for secret in secrets for form in _forms(secret)]
    return re.compile("|".join(forms))


def _forms(secret: str) -> list[str]:
    """Return the patterns of one secret."""
    letters = _BETWEEN.join(map(_letter, secret))
    content = secret.encode("utf-8", "surrogatepass")
    forms = [letters, _BETWEEN.join(f"(?i:{byte:02x})" for byte in content)]
    for before in range(3):
        # Of each group of three bytes whose neighbours are not known, only the whole ones are.
        coded = base64.b64encode(bytes(before) + content).decode("ascii").rstrip("=")
        first = (0, 2, 3)[before]
        last = len(coded) - ((before + len(content)) % 3 != 0)
        if last - first >= MIN_KEY_LETTERS:
            signs = (_BASE64.get(sign, sign) for sign in coded[first:last])
            forms.append(_BETWEEN.join(signs) + "[A-Za-z0-9+/_-]?={0,2}")
    return forms


_BASE64 = {"+": "[+-]", "/": "[/_]"}
"""What differs between base64 and that of addresses."""


def _letter(letter: str) -> str:
    """Return the pattern of one letter as it is, in an address, or as JSON, Python or a page escapes it."""
    coded = letter.encode("utf-8", "surrogatepass")
    percent = "".join(f"%(?:25)*(?i:{byte:02x})" for byte in coded)
    python = "".join(rf"\\+x(?i:{byte:02x})" for byte in coded)
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    escaped = "".join(rf"\\u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    page = rf"&#(?:0*{ord(letter)}|[xX]0*(?i:{ord(letter):x}));"
    forms = [re.escape(letter), percent, escaped, python, page]
    if (named := html.escape(letter)) != letter:
        forms.append(re.escape(named))
    if letter == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})"


def _of_address(address: str) -> set[str]:
    """Return the password of an address, as it is written and as it is meant, and what precedes its @."""
    try:
        parts = urlsplit(address.strip())
        password = parts.password or ""
    except ValueError:
        return set()
    return {parts.netloc.rpartition("@")[0], password, unquote(password)}
