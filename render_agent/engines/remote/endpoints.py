"""Addresses of servers and hosted services, and the key that each gets."""

from __future__ import annotations

import base64
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from render_agent.errors import SetupError, UsageError

HOSTED_HOST = "api.openai.com"
PLACEHOLDER_KEY = "EMPTY"  # sent without a key: the SDKs require one and would read the environment


@dataclass(frozen=True, slots=True)
class Service:
    """A hosted service, and how servers that speak its protocol are found."""

    engine: str
    url: str  # default address if there is a key but no other address
    key_variables: tuple[str, ...]
    """Environment variables that can hold a key; the first one that is set is used."""
    url_variable: str  # environment variable that can hold the address
    key_header: str = "Authorization"
    """Header that contains the key; `Authorization` has it as a bearer token."""
    path: str = ""  # end of the addresses of servers; empty for none
    example: str = ""  # example address, for messages; empty if the service has no other servers


OPENAI = Service(
    "openai",
    f"https://{HOSTED_HOST}/v1",
    ("RENDER_AGENT_API_KEY", "OPENAI_API_KEY"),
    "OPENAI_BASE_URL",
    path="/v1",
    example="http://localhost:8000/v1",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and credentials of a server."""

    url: str
    """URL without credentials; safe to log."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Authentication headers; secret."""
    key_variable: str | None = None
    """Environment variable that the key comes from; None without a key."""
    service: Service = OPENAI
    """The service whose protocol the server speaks."""
    for_jobs: bool = False
    """True if responses are the files of batch jobs: large, and not to be interpreted."""

    @property
    def host(self) -> str:
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
            scheme, _, credentials = value.rpartition(" ")
            secrets.append(credentials)
            if scheme == "Basic":  # a server may echo the decoded form, too
                pair = base64.b64decode(credentials).decode()
                secrets += [pair, pair.partition(":")[2]]
        return tuple(filter(None, secrets))

    @property
    def key_source(self) -> str:
        """A note that names the environment variable of the key that was sent, or those that can hold one."""
        if self.key_variable is not None:
            return f"the key of {self.key_variable} was sent: check it"
        if self.headers:
            return f"the password of {self.service.url_variable} was sent: check it"
        return f"no key was sent: set {' or '.join(self.service.key_variables)}"


def find_endpoints(base_urls: Sequence[str], service: Service = OPENAI) -> list[Endpoint]:
    variable, key = find_key(service)
    for address in base_urls:
        if "@" in _parts(address, service).netloc:
            raise UsageError(
                "--base-url must not contain a password, because it is saved in the run folder. Put the"
                f" address into {service.url_variable}, or a key into {service.key_variables[0]}."
            )
    addresses = list(base_urls) or [os.environ.get(service.url_variable, "").strip()]
    if addresses == [""]:
        if key is None:
            needs = (
                f"--base-url URL, such as {service.example} (for {service.url} a key in"
                f" {service.key_variables[-1]} is enough)"
                if service.example
                else f"a key: set {' or '.join(service.key_variables)}"
            )
            raise SetupError(f"--engine {service.engine} needs {needs}")
        addresses = [service.url]
    endpoints = [parse_endpoint(address, key, variable, service) for address in addresses]
    return list({entry.url: entry for entry in endpoints}.values())


def find_key(service: Service = OPENAI) -> tuple[str | None, str | None]:
    """Return the environment variable that has a key, and the key, or None. Raises SetupError if it is malformed."""
    name = next((name for name in service.key_variables if os.environ.get(name, "").strip()), None)
    if name is None:
        return None, None
    key = os.environ[name].strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SetupError(f"{name} contains characters that are not allowed in a key: set it again")
    return name, key


def parse_endpoint(
    address: str,
    key: str | None,  # the key; None for none
    variable: str | None = None,
    service: Service = OPENAI,
) -> Endpoint:
    """Return the server at an address. Raises UsageError if the address is malformed."""
    parts = _parts(address, service)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _invalid_address(address, service)
    netloc = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
    if parts.query or parts.fragment:
        raise UsageError(
            f"--base-url {url} must not have a query: pass other fields with --engine-option extra_body"
        )
    headers, variable = {}, variable if key else None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        variable = None
    elif key:
        is_bearer = service.key_header == "Authorization"
        headers[service.key_header] = f"Bearer {key}" if is_bearer else key
    return Endpoint(url, headers, variable, service)


def _parts(address: str, service: Service) -> SplitResult:
    try:
        parts = urlsplit(address.strip())
        _ = parts.port  # raises ValueError if it is not valid
        return parts
    except ValueError:
        raise _invalid_address(address, service) from None


def _invalid_address(address: str, service: Service) -> UsageError:
    without_password = address.rpartition("@")[2]
    example = service.example or service.url
    return UsageError(f"--base-url {without_password} is not a valid address. Example: {example}")
