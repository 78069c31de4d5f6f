"""Holds replies to a JSON schema, token by token, by llguidance.

A guided reply is one JSON object and its end: keys in the schema's order (those that are not
required may be left out), at most one line break or space between two tokens of JSON, nothing
before the object but an optional think block and two line breaks, nothing behind it. Numbers keep
the schema's bounds. Tokens that stand for no text (pictures, roles, tools) do not come up.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

if TYPE_CHECKING:
    from render_agent.engines.transformers.generate_engine import Row

LOG = logging.getLogger(__name__)

MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)
"""An added token of this form stands for something else than its own text."""

BETWEEN = r"\n {0,8}| "
"""What may stand between two tokens of JSON: a space, or a new line and its indentation."""

THINK, END_OF_THINK = "<think>", "</think>"

BOUNDED = (1, 9)
"""Release of llguidance before which white space between tokens is endless; vLLM 0.32 wants one of those.

It is then left out but behind commas and colons, and escapes such as `\\u0041` are not written.
"""

Place = Literal["start", "thinking", "reply", "free"]


class Guides:
    """The guides of one model's replies; its tokenizer and each schema are compiled once, when needed.

    Takes some seconds for a tokenizer of 150,000 tokens, milliseconds for a schema.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Sequence[int]) -> None:
        """vocabulary: width of the model's scores, which may be wider than the tokenizer is long.

        ends: the tokens that end a reply. `texts` are the tokens that stand for text, `thoughts`
        those that may stand in a think block, (vocabulary,) of bool. ValueError where there are no
        ends, because a reply that is held to one object could not end, and for a tokenizer that is
        not of the library tokenizers.
        """
        if not can_guide(tokenizer, ends):
            raise ValueError(
                "a reply can be guided where tokens end it and the tokenizer is a fast one"
            )
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.ends = frozenset(ends)
        every: dict[str, int] = tokenizer.get_added_vocab()
        added = {text: number for text, number in every.items() if number < vocabulary}
        self.think, self.end_of_think = added.get(THINK), added.get(END_OF_THINK)
        self.refused = (
            frozenset(number for text, number in added.items() if MARKER.fullmatch(text))
            - self.ends
        )
        self.texts = torch.ones(vocabulary, dtype=torch.bool)
        self.texts[list(self.refused)] = False
        self.thoughts = self.texts.clone()
        self.thoughts[len(tokenizer) :] = False
        self.thoughts[[token for token in self.ends if token < vocabulary]] = False
        if self.end_of_think is not None:
            self.thoughts[self.end_of_think] = True
        self.text_bits = np.packbits(self.texts.numpy(), bitorder="little")
        self.thought_bits = np.packbits(self.thoughts.numpy(), bitorder="little")
        self._compiled: Any = None
        self._matchers: dict[str, Any] = {}

    def start(self, schema: Mapping[str, Any], prompt: str = "") -> Guide:
        """Return the guide of one new reply.

        prompt: the text before the reply; a think block may have been opened there, or closed.
        ValueError for a schema that llguidance does not know how to hold to.
        """
        place: Place = "start"
        if self.end_of_think is None or prompt.rstrip().endswith(END_OF_THINK):
            place = "reply"
        elif prompt.rstrip().endswith(THINK):
            place = "thinking"
        return Guide(self, self._matcher(schema).deep_copy(), place)

    def _matcher(self, schema: Mapping[str, Any]) -> Any:
        """Return what every guide of a schema is a copy of."""
        from llguidance import LLMatcher, LLTokenizer

        if self._compiled is None:
            self._compiled = LLTokenizer(
                self.tokenizer.backend_tokenizer.to_str(),
                n_vocab=max(self.vocabulary, len(self.tokenizer)),
                eos_token=sorted(self.ends),
            )
        grammar = grammar_of(schema)
        if grammar not in self._matchers:
            matcher = LLMatcher(self._compiled, grammar, log_level=0)
            if matcher.is_error():
                raise ValueError(f"the schema cannot guide: {matcher.get_error()}")
            self._matchers[grammar] = matcher
        return self._matchers[grammar]


class Guide:
    """Holds one reply to its schema.

    A greedy reply needs the mask only where its likeliest token is refused: one that `allows` takes
    would stay the likeliest of all that it takes. `mask` is those, but where the schema leaves one
    text alone: there it is the token that the tokenizer would make of it.
    """

    def __init__(self, guides: Guides, matcher: Any, place: Place) -> None:
        self.guides = guides
        self.place: Place = place
        self._matcher = matcher

    @property
    def finished(self) -> bool:
        """Whether the reply has ended; whatever comes then is filling."""
        return self.place == "free"

    def allows(self, token: int) -> bool:
        """Whether a token may come next; no mask is computed."""
        guides = self.guides
        if self.place == "free":
            return True
        if self.place == "thinking":
            return bool(token < guides.vocabulary and guides.thoughts[token])
        if token in guides.ends:
            return bool(self._matcher.is_accepting())
        if token in guides.refused:
            return self.place == "start" and token == guides.think
        return token < guides.vocabulary and bool(self._matcher.validate_tokens([token]))

    def bits(self) -> np.ndarray:
        """Return which tokens may come next, a bit each, (⌈vocabulary / 8⌉,) uint8, the first the lowest."""
        guides = self.guides
        if self.place == "thinking":
            return guides.thought_bits
        packed = None if self.place == "free" else self._matcher.compute_bitmask()
        if packed is None or self._lost():
            return np.full_like(guides.text_bits, 255)
        allowed = np.frombuffer(packed, np.uint8, len(guides.text_bits)) & guides.text_bits
        if self.place == "start" and guides.think is not None:
            allowed[guides.think // 8] |= 1 << guides.think % 8
        return allowed

    def mask(self) -> torch.Tensor:
        """Return which tokens may come next, (vocabulary,) of bool, on the CPU; at least one may."""
        unpacked = np.unpackbits(self.bits(), count=self.guides.vocabulary, bitorder="little")
        return torch.from_numpy(unpacked.view(bool))

    def take(self, token: int) -> None:
        """Go on behind a token; ends are taken too. ValueError for one that is not allowed."""
        if self.place == "free":
            return
        if not self.allows(token):
            raise ValueError(f"token {token} cannot come next in a guided reply")
        if self.place == "thinking":
            if token == self.guides.end_of_think:
                self.place = "reply"
        elif token in self.guides.ends:
            self.place = "free"
        elif token in self.guides.refused:
            self.place = "thinking"
        else:
            self.place = "reply"
            self._matcher.consume_token(token)
            self._lost()

    def _lost(self) -> bool:
        """Whether llguidance gave up on this reply, as where a text outgrows its limits; it is free then."""
        if not self._matcher.is_error():
            return False
        LOG.warning("a reply goes on without its guide: %s", self._matcher.get_error())
        self.place = "free"
        return True


class GuidedRows:
    """A logits processor that leaves every row only what its guide allows; it comes before sampling.

    guides: one a row, None where anything goes. greedy: whether the row's likeliest token is taken.
    prompt_length: tokens before the first new one, padding included.
    """

    def __init__(
        self, guides: Sequence[Guide | None], greedy: Sequence[bool], prompt_length: int
    ) -> None:
        self.guides = guides
        self.greedy = greedy
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (rows, vocabulary), now with -inf where a token may not come next."""
        if input_ids.shape[1] > self.prompt_length:
            for guide, token in zip(self.guides, input_ids[:, -1].tolist(), strict=True):
                if guide is not None:
                    guide.take(token)
        best = scores.argmax(-1).tolist()
        held = [
            (row, guide.mask())
            for row, guide in enumerate(self.guides)
            if guide is not None
            and not guide.finished
            and not (self.greedy[row] and guide.allows(best[row]))
        ]
        if not held:
            return scores
        forbidden = ~torch.stack([mask for _, mask in held]).to(scores.device)
        if len(held) == len(self.guides):
            return scores.masked_fill_(forbidden, -torch.inf)
        rows = torch.tensor([row for row, _ in held], device=scores.device)
        scores[rows] = scores[rows].masked_fill_(forbidden, -torch.inf)
        return scores


def guided_rows(guides: Guides | None, rows: Sequence[Row], length: int) -> list[GuidedRows]:
    """Return the logits processor that holds rows to their requests' schemas, where any has one.

    length: tokens of their prompts, padding included.
    """
    schemas = [row.request.schema for row in rows]
    if guides is None or all(schema is None for schema in schemas):
        return []
    started = [
        None if schema is None else guides.start(schema, row.prompt.text)
        for row, schema in zip(rows, schemas, strict=True)
    ]
    return [GuidedRows(started, [row.request.temperature == 0 for row in rows], length)]


def guides_of(model: Any, tokenizer: Any, ends: Sequence[int]) -> Guides | None:
    """Return the guides of a model's replies; None, with a warning, where they cannot be guided."""
    if not can_guide(tokenizer, ends):
        LOG.warning("replies are not held to their schema: %s cannot be guided", type(tokenizer))
        return None
    return Guides(tokenizer, model.config.get_text_config().vocab_size, ends)


def can_guide(tokenizer: Any, ends: Sequence[int]) -> bool:
    """Whether replies written with this tokenizer can be guided."""
    return bool(ends) and getattr(tokenizer, "backend_tokenizer", None) is not None


def grammar_of(schema: Mapping[str, Any]) -> str:
    """Return the Lark grammar of a reply: line breaks, then one object of the schema."""
    spelling: dict[str, Any] = {
        "whitespace_pattern": BETWEEN,
        "json_allow_general_unicode_escapes": True,
    }
    if _release() < BOUNDED:
        between = {"item_separator": f",({BETWEEN})?", "key_separator": f":({BETWEEN})?"}
        spelling = {"whitespace_flexible": False, **between}
    form = {**schema, "x-guidance": spelling}
    return f"start: /\\n{{0,2}}/ reply\nreply: %json {json.dumps(form)}\n"


def _release() -> tuple[int, ...]:
    return tuple(int(number) for number in version("llguidance").split(".")[:2])
