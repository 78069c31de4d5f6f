"""What is set for OpenAI-compatible servers: where they are, the key, and the engine's options."""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from render_agent.errors import SetupError, UsageError

HOSTED = "https://api.openai.com/v1"
"""Where requests go when there is a key and no address."""

KEYS = ("RENDER_AGENT_API_KEY", "OPENAI_API_KEY")
"""The environment variables that may hold the key, the first one set counts."""

LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")


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
        found: list[str] = []
        for value in self.headers.values():
            kind, _, proof = value.partition(" ")
            found.append(proof)
            if kind == "Basic":  # a server may repeat what is meant as well as what is sent
                pair = base64.b64decode(proof).decode()
                found += [pair, pair.partition(":")[2]]
        return tuple(filter(None, found))


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """The `--engine-option`s of `--engine openai`.

    timeout, connect_timeout: seconds of a whole reply, of reaching the server. retries: of one
    request, after waits that double from first_wait seconds. max_tokens_field: `max_tokens` or
    `max_completion_tokens` (found out). extra_body: fields of every request, as they are. price_in,
    price_out, price_cached: of a million tokens. rate_limit: requests a minute. image_detail: low, high.
    """

    timeout: float = 600.0
    connect_timeout: float = 10.0
    retries: int = 8
    first_wait: float = 0.5
    max_tokens_field: str | None = None
    reasoning_effort: str | None = None
    top_p: float | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    price_in: float | None = None
    price_out: float | None = None
    price_cached: float | None = None
    rate_limit: float | None = None
    image_detail: str | None = None


NUMBERS = {"timeout", "connect_timeout", "first_wait", "top_p", "rate_limit", "retries"} | {
    "price_in",
    "price_out",
    "price_cached",
}
MAY_BE_ZERO = {"retries", "price_in", "price_out", "price_cached"}


def read_options(given: Mapping[str, Any]) -> OpenAIOptions:
    """Return the engine options K=V as they were read. UsageError where one is none or makes no sense."""
    known = [entry.name for entry in fields(OpenAIOptions)]
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"--engine-option {name} does not exist for --engine openai: use one of"
                f" {', '.join(known)}"
            )
        if name in NUMBERS:
            _check_number(name, value)
        elif name == "extra_body":
            if not isinstance(value, dict):
                raise UsageError(
                    "--engine-option extra_body must be a mapping, such as"
                    " 'extra_body={top_k: 20, chat_template_kwargs: {enable_thinking: false}}'"
                )
        elif not isinstance(value, str):
            raise UsageError(f"--engine-option {name}={value!r} must be a word")
    if given.get("max_tokens_field") not in (None, *LIMIT_FIELDS):
        raise UsageError(f"--engine-option max_tokens_field must be {' or '.join(LIMIT_FIELDS)}")
    return OpenAIOptions(**given)


def _check_number(name: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    whole = name != "retries" or isinstance(value, int)
    if not (number and whole and (value > 0 or (value == 0 and name in MAY_BE_ZERO))):
        least = "0 or more" if name in MAY_BE_ZERO else "more than 0"
        raise UsageError(f"--engine-option {name}={value!r} must be a number, {least}")


def find_endpoints(base_urls: Sequence[str]) -> list[Endpoint]:
    """Return where the servers are: as given, else by OPENAI_BASE_URL, else the hosted one with a key.

    UsageError where an address is none, or holds credentials although it will be written down;
    SetupError where there is no address, or the key cannot be one.
    """
    key = find_key()
    for address in base_urls:
        if "@" in urlsplit(address).netloc:
            raise UsageError(
                "--base-url must not hold a password, it is written into the run folder: put the"
                f" whole address into OPENAI_BASE_URL, or a key into {KEYS[0]}"
            )
    addresses = list(base_urls) or [os.environ.get("OPENAI_BASE_URL", "").strip()]
    if addresses == [""]:
        if key is None:
            raise SetupError(
                "--engine openai needs --base-url URL, such as http://localhost:8000/v1 (for"
                f" {HOSTED} a key in {KEYS[1]} is enough)"
            )
        addresses = [HOSTED]
    found = [endpoint(address, key) for address in addresses]
    return list({entry.url: entry for entry in found}.values())


def find_key() -> str | None:
    """Return the key of the environment, None where there is none. SetupError where it cannot be one."""
    name = next((name for name in KEYS if os.environ.get(name, "").strip()), None)
    if name is None:
        return None
    key = os.environ[name].strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SetupError(f"{name} holds characters that no key has: set it again")
    return key


def endpoint(address: str, key: str | None) -> Endpoint:
    """Return the server at an address. UsageError where that is no address of a server."""
    parts = urlsplit(address.strip())
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        shown = address.rpartition("@")[2]
        raise UsageError(
            f"--base-url {shown} is no address: write it like http://localhost:8000/v1"
        )
    place = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
    if parts.query or parts.fragment:
        raise UsageError(
            f"--base-url {url} must end with its path: give other fields by --engine-option extra_body"
        )
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        proof = "Basic " + base64.b64encode(pair.encode()).decode()
        return Endpoint(url, {"Authorization": proof})
    return Endpoint(url, {"Authorization": f"Bearer {key}"} if key else {})
