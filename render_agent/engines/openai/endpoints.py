"""Where OpenAI-compatible servers are, and the key that each is sent."""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from render_agent.errors import SetupError, UsageError

HOSTED_HOST = "api.openai.com"
HOSTED_URL = f"https://{HOSTED_HOST}/v1"
"""Where requests go when there is a key and no address."""

KEY_VARIABLES = ("RENDER_AGENT_API_KEY", "OPENAI_API_KEY")
"""The environment variables that may hold the key, the first one set counts."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server. url: without credentials, safe to be shown. headers: what proves who asks; secret."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def host(self) -> str:
        """The name or address of the machine."""
        return urlsplit(self.url).hostname or ""

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine, where no proxy should be asked."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def secrets(self) -> tuple[str, ...]:
        """The words that must not be written down."""
        words: list[str] = []
        for value in self.headers.values():
            kind, _, proof = value.partition(" ")
            words.append(proof)
            if kind == "Basic":  # a server may repeat what is meant as well as what is sent
                pair = base64.b64decode(proof).decode()
                words += [pair, pair.partition(":")[2]]
        return tuple(filter(None, words))


def find_endpoints(base_urls: Sequence[str]) -> list[Endpoint]:
    """Return where the servers are: as given, else by OPENAI_BASE_URL, else the hosted one with a key.

    UsageError where an address is none, or holds credentials although it will be written down;
    SetupError where there is no address, or the key cannot be one.
    """
    key = find_key()
    for address in base_urls:
        if "@" in _parts(address).netloc:
            raise UsageError(
                "--base-url must not hold a password, it is written into the run folder: put the"
                f" whole address into OPENAI_BASE_URL, or a key into {KEY_VARIABLES[0]}"
            )
    addresses = list(base_urls) or [os.environ.get("OPENAI_BASE_URL", "").strip()]
    if addresses == [""]:
        if key is None:
            raise SetupError(
                "--engine openai needs --base-url URL, such as http://localhost:8000/v1 (for"
                f" {HOSTED_URL} a key in {KEY_VARIABLES[1]} is enough)"
            )
        addresses = [HOSTED_URL]
    endpoints = [endpoint(address, key) for address in addresses]
    return list({entry.url: entry for entry in endpoints}.values())


def find_key() -> str | None:
    """Return the key of the environment, None where there is none. SetupError where it cannot be one."""
    name = next((name for name in KEY_VARIABLES if os.environ.get(name, "").strip()), None)
    if name is None:
        return None
    key = os.environ[name].strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SetupError(f"{name} holds characters that no key has: set it again")
    return key


def endpoint(address: str, key: str | None) -> Endpoint:
    """Return the server at an address. UsageError where that is no address of a server."""
    parts = _parts(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _no_address(address)
    netloc = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
    if parts.query or parts.fragment:
        raise UsageError(
            f"--base-url {url} must end with its path: give other fields by --engine-option extra_body"
        )
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        proof = "Basic " + base64.b64encode(pair.encode()).decode()
        return Endpoint(url, {"Authorization": proof})
    return Endpoint(url, {"Authorization": f"Bearer {key}"} if key else {})


def _parts(address: str) -> SplitResult:
    try:
        parts = urlsplit(address.strip())
        _ = parts.port  # checked when it is read
        return parts
    except ValueError:
        raise _no_address(address) from None


def _no_address(address: str) -> UsageError:
    shown = address.rpartition("@")[2]
    return UsageError(f"--base-url {shown} is no address: write it like http://localhost:8000/v1")
