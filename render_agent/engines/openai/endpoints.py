"""Addresses of OpenAI-compatible servers, and the key that each gets."""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from render_agent.errors import SetupError, UsageError

HOSTED_HOST = "api.openai.com"
HOSTED_URL = f"https://{HOSTED_HOST}/v1"  # default if there is a key but no address
KEY_VARIABLES = ("RENDER_AGENT_API_KEY", "OPENAI_API_KEY")  # the first one that is set is used


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and credentials of a server."""

    url: str
    """URL without credentials; safe to log."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Authentication headers; secret."""
    key_variable: str | None = None
    """Environment variable that the key comes from; None without a key."""

    @property
    def host(self) -> str:
        """Host name or address."""
        return urlsplit(self.url).hostname or ""

    @property
    def loopback(self) -> bool:
        """True if the server is on this machine, so that proxies must be bypassed."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def secrets(self) -> tuple[str, ...]:
        """Strings that must not be logged."""
        secrets: list[str] = []
        for value in self.headers.values():
            scheme, _, credentials = value.partition(" ")
            secrets.append(credentials)
            if scheme == "Basic":  # a server may echo the decoded form, too
                pair = base64.b64decode(credentials).decode()
                secrets += [pair, pair.partition(":")[2]]
        return tuple(filter(None, secrets))


def find_endpoints(base_urls: Sequence[str]) -> list[Endpoint]:
    """Return the servers.

    Args:
        base_urls: Values of `--base-url`; if empty, OPENAI_BASE_URL is used, or OpenAI's own API if there is a key.

    Raises:
        UsageError: An address is malformed or contains credentials.
        SetupError: There is no address, or the key is malformed.
    """
    variable, key = find_key()
    for address in base_urls:
        if "@" in _parts(address).netloc:
            raise UsageError(
                "--base-url must not contain a password, because it is saved in the run folder. Put the"
                f" address into OPENAI_BASE_URL, or a key into {KEY_VARIABLES[0]}."
            )
    addresses = list(base_urls) or [os.environ.get("OPENAI_BASE_URL", "").strip()]
    if addresses == [""]:
        if key is None:
            raise SetupError(
                "--engine openai needs --base-url URL, such as http://localhost:8000/v1 (for"
                f" {HOSTED_URL} a key in {KEY_VARIABLES[1]} is enough)"
            )
        addresses = [HOSTED_URL]
    endpoints = [parse_endpoint(address, key, variable) for address in addresses]
    return list({entry.url: entry for entry in endpoints}.values())


def find_key() -> tuple[str | None, str | None]:
    """Return the environment variable that has a key, and the key, or None. Raises SetupError if it is malformed."""
    name = next((name for name in KEY_VARIABLES if os.environ.get(name, "").strip()), None)
    if name is None:
        return None, None
    key = os.environ[name].strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SetupError(f"{name} contains characters that are not allowed in a key: set it again")
    return name, key


def parse_endpoint(address: str, key: str | None, variable: str | None = None) -> Endpoint:
    """Return the server at an address. Raises UsageError if the address is malformed.

    Args:
        address: The address.
        key: The key; None for none.
        variable: The environment variable of the key.
    """
    parts = _parts(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _invalid_address(address)
    netloc = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
    if parts.query or parts.fragment:
        raise UsageError(
            f"--base-url {url} must not have a query: pass other fields with --engine-option extra_body"
        )
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        basic = "Basic " + base64.b64encode(pair.encode()).decode()
        return Endpoint(url, {"Authorization": basic})
    return Endpoint(url, {"Authorization": f"Bearer {key}"}, variable) if key else Endpoint(url)


def _parts(address: str) -> SplitResult:
    try:
        parts = urlsplit(address.strip())
        _ = parts.port  # raises ValueError if it is not valid
        return parts
    except ValueError:
        raise _invalid_address(address) from None


def _invalid_address(address: str) -> UsageError:
    without_password = address.rpartition("@")[2]
    return UsageError(
        f"--base-url {without_password} is not a valid address. Example: http://localhost:8000/v1"
    )
