"""Prices of hosted models: a dated table, or the user's own (`--prices`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from render_agent.dialogue.tokens import Tokens
from render_agent.errors import UsageError, os_errors
from render_agent.util.reasons import reason_of
from render_agent.util.safe_parse import convert, parse_yaml, read_text

TABLE = Path(__file__).with_name("prices.yaml")
MAX_TABLE_BYTES = 1 << 20
SNAPSHOT = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2}|latest)$")  # end of a dated model name
PER_TOKENS = 1e6  # prices are per million tokens

Usd = Annotated[float, Meta(ge=0, le=1e6)]


class Price(Struct, frozen=True, omit_defaults=True):
    """The price of some models in USD per million tokens: a row of the table, and `price` in config.json."""

    models: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Names of the models, or patterns such as "gpt-5*"."""
    prompt: Usd = msgspec.field(name="in")  # tokens of the prompt (`in` in the table)
    reply: Usd = msgspec.field(name="out")
    """Generated tokens, including thinking (`out` in the table)."""
    cached: Usd | None = None  # prompt tokens read from a cache; None costs the same as `prompt`
    cache_write: Usd | None = None
    """Prompt tokens written to a cache; None costs the same as `prompt`."""
    date: date | None = None  # day on which the price was valid
    source: str = ""  # page that the price was taken from

    @property
    def most_per_prompt_token(self) -> float:
        """The highest price of a million prompt tokens, whatever is cached."""
        return max(self.prompt, self.cached or 0, self.cache_write or 0)

    def cost(self, tokens: Tokens) -> float:
        """Return the cost of tokens in USD."""
        cached_tokens = min(tokens.cached, tokens.prompt)
        written_tokens = min(tokens.cache_written, tokens.prompt - cached_tokens)
        parts = (
            (tokens.prompt - cached_tokens - written_tokens, self.prompt),
            (cached_tokens, self.prompt if self.cached is None else self.cached),
            (written_tokens, self.prompt if self.cache_write is None else self.cache_write),
            (tokens.reply, self.reply),
        )
        return sum(number * price for number, price in parts) / PER_TOKENS

    def describe(self) -> str:
        """Return the prices, their date and their source in a few words."""
        kinds = (("cached", self.cached), ("cache write", self.cache_write), ("out", self.reply))
        prices = [f"in ${self.prompt:g}"]
        prices += [f"{kind} ${price:g}" for kind, price in kinds if price is not None]
        day = "" if self.date is None else self.date.isoformat()
        origin = ", ".join(filter(None, (day, self.source)))
        return f"{', '.join(prices)} per million tokens{f' ({origin})' if origin else ''}"


class _Row(Price, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A row of a table, in which an unknown key is a typing error."""


def find_price(
    model: str,
    file: str | None = None,  # the user's table; None uses the bundled one
) -> Price | None:
    """Return the price of a model: the first row that names it, without the date of a snapshot; None if none does."""
    name = model.rpartition("/")[2].lower()
    names = {model.lower(), name, SNAPSHOT.sub("", name)}
    rows = read_prices(TABLE if file is None else Path(file).expanduser())
    return next(
        (row for row in rows if any(fnmatchcase(n, p.lower()) for p in row.models for n in names)),
        None,
    )


def read_prices(file: Path) -> Sequence[Price]:
    """Return the rows of a table in YAML or JSON. Raises UsageError as `find_price`."""
    try:
        with os_errors(UsageError, f"read --prices {file}"):
            text = read_text(file, MAX_TABLE_BYTES)
        return _parse_prices(text)
    except ValueError as error:
        raise UsageError(
            f"--prices {file}: {reason_of(error)}. It must be a list of rows, each with models, in and out, e.g."
            " - {models: [my-model], in: 2.5, out: 10}"
        ) from error


@lru_cache(8)  # parsing the bundled table takes longer than the start of a small run
def _parse_prices(text: str) -> Sequence[Price]:
    rows: Sequence[Price] = convert(parse_yaml(text), tuple[_Row, ...])
    return rows
