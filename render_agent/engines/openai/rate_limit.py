"""When a server may be asked again: back-off, the wait that its headers ask for, and its cooldown."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenacity.wait import wait_base

MAX_BACKOFF_SECONDS = 30.0
"""The longest wait between two attempts that nobody asked for."""

MAX_COOLDOWN_SECONDS = 600.0
"""How long a server may ask to be left alone; one that asks for more is out of quota."""

UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def backoff(first_seconds: float) -> wait_base:
    """Return waits that double with every attempt, half of each by chance, so that not all come at once."""
    from tenacity import wait_exponential, wait_random_exponential

    half: dict[str, float] = {"multiplier": first_seconds / 2, "max": MAX_BACKOFF_SECONDS / 2}
    return wait_exponential(**half) + wait_random_exponential(**half)


def parse_seconds(text: str) -> float | None:
    """Return a time such as "20ms", "6m0s", "1.5" or a date of the future in seconds, None if it is none."""
    text = text.strip()
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    if re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h|d))+", text):
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
        return sum(float(number) * UNIT_SECONDS[unit] for number, unit in parts)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError, IndexError):  # the last by a fault of the library
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait before a repetition, None if it does not say."""
    if (exact := parse_seconds(headers.get("retry-after-ms", ""))) is not None:
        return exact / 1000
    if (seconds := parse_seconds(headers.get("retry-after", ""))) is not None:
        return seconds
    return limit_reset(headers)


def limit_reset(headers: Mapping[str, str]) -> float | None:
    """Return in how many seconds a limit that is used up is reset, None where something is left."""
    resets = [
        parse_seconds(headers.get(f"x-ratelimit-reset-{kind}", ""))
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}", "").strip() == "0"
    ]
    return max((seconds for seconds in resets if seconds is not None), default=None)


@dataclass
class Cooldown:
    """A time during which one server is not asked, shared by all that want to ask it."""

    until: float = 0.0

    def extend(self, seconds: float) -> None:
        """Ask nothing for so long from now on."""
        now = asyncio.get_running_loop().time()
        self.until = max(self.until, now + min(seconds, MAX_COOLDOWN_SECONDS))

    @property
    def over(self) -> bool:
        """Whether the server may be asked."""
        return asyncio.get_running_loop().time() >= self.until

    async def wait(self) -> None:
        """Wait until the server may be asked, some a little longer, so that not all come at once."""
        while not self.over:
            left = self.until - asyncio.get_running_loop().time()
            await asyncio.sleep(left * random.uniform(1.0, 1.1))
