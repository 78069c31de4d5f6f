"""When to ask again: back-off, what a server asks to wait, and a rate of one's own."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_WAIT = 30.0
"""Seconds that back-off waits at the most."""

LONGEST_PAUSE = 600.0
"""Seconds that a server may ask to be left alone; one that asks for more is out of quota."""

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def back_off(tried: int, first: float) -> float:
    """Return how many seconds to wait after `tried` failures: doubled each time, half of it by chance."""
    return min(LONGEST_WAIT, first * 2.0 ** min(tried - 1, 30)) * random.uniform(0.5, 1.0)


def seconds_of(text: str) -> float | None:
    """Return a time such as "20ms", "6m0s", "1.5" or a date of the future in seconds, None if it is none."""
    text = text.strip()
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    if re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h|d))+", text):
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
        return sum(float(number) * UNITS[unit] for number, unit in parts)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError, IndexError):  # the last by a fault of the library
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return how long a server asks to wait before the request is repeated, None if it does not say."""
    if (exact := seconds_of(headers.get("retry-after-ms", ""))) is not None:
        return exact / 1000
    if (wait := seconds_of(headers.get("retry-after", ""))) is not None:
        return wait
    return spent_wait(headers)


def spent_wait(headers: Mapping[str, str]) -> float | None:
    """Return how long it takes until a limit that is used up is reset, None where something is left."""
    waits = [
        seconds_of(headers.get(f"x-ratelimit-reset-{kind}", ""))
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}", "").strip() == "0"
    ]
    found = [wait for wait in waits if wait is not None]
    return max(found) if found else None


@dataclass
class Pause:
    """A time during which one server is not asked, shared by all that want to ask it."""

    until: float = 0.0

    def extend(self, seconds: float) -> None:
        """Ask nothing for so long from now on."""
        now = asyncio.get_running_loop().time()
        self.until = max(self.until, now + min(seconds, LONGEST_PAUSE))

    @property
    def over(self) -> bool:
        """Whether the server may be asked."""
        return asyncio.get_running_loop().time() >= self.until

    async def wait(self) -> None:
        """Wait until the server may be asked, some a little longer, so that not all come at once."""
        while not self.over:
            left = self.until - asyncio.get_running_loop().time()
            await asyncio.sleep(left * random.uniform(1.0, 1.1))


@dataclass
class Rate:
    """At most so many requests a minute, evenly; None is no limit."""

    a_minute: float | None = None
    _next: float = 0.0

    async def turn(self) -> None:
        """Wait for one's turn."""
        if self.a_minute is None:
            return
        now = asyncio.get_running_loop().time()
        begins = max(now, self._next)
        self._next = begins + 60.0 / self.a_minute
        await asyncio.sleep(begins - now)
