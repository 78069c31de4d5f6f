"""Holds replies to a JSON schema, token by token, by llguidance.

A guided reply is one JSON object and its end: keys in the schema's order (those that are not
required may be left out), at most one line break or space between two tokens of JSON, nothing
before the object but an optional think block and two line breaks, nothing behind it. Numbers keep
the schema's bounds. Tokens that stand for no text (pictures, roles, tools) do not come up.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import torch

from render_agent.engines.checkpoint.special_tokens import MARKER
from render_agent.engines.families.thinking import Marks, Thinking

LOG = logging.getLogger(__name__)

BETWEEN = r"\n {0,8}| "
"""What may stand between two tokens of JSON: a space, or a new line and its indentation."""

BOUNDED = (1, 9)
"""Release of llguidance before which white space between tokens is endless; vLLM 0.32 wants one of those.

It is then left out but behind commas and colons, and escapes such as `\\u0041` are not written.
"""

Place = Literal["start", "thinking", "reply", "free"]


class Guides:
    """The guides of one model's replies; its tokenizer and each schema are compiled once, when needed.

    Takes some seconds for a tokenizer of 150,000 tokens, milliseconds for a schema.
    """

    def __init__(
        self, tokenizer: Any, vocabulary: int, ends: Sequence[int], marks: Marks | None = None
    ) -> None:
        """vocabulary: width of the model's scores, which may be wider than the tokenizer is long.

        ends: the tokens that end a reply. marks: those of a thought, by default `<think>` and `</think>` where the
        tokenizer has them. `words` is how many words of 32 tokens a mask has. `thoughts` are the tokens that may
        stand in a think block, (32 × words,) of bool. ValueError where there are no ends, because a reply that is
        held to one object could not end, and for a tokenizer that is not of the library tokenizers.
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
        self.marks = marks or Thinking().marks(tokenizer)
        self.refused = (
            frozenset(number for text, number in added.items() if MARKER.fullmatch(text))
            - self.ends
        )
        # llguidance's masks are whole words of 32 tokens, up to the end of the longer of the two.
        self.words = -(-max(vocabulary, len(tokenizer)) // 32)
        texts = np.arange(32 * self.words) < vocabulary
        texts[list(self.refused)] = False
        self.thoughts = texts & (np.arange(len(texts)) < len(tokenizer))
        self.thoughts[[token for token in self.ends if token < vocabulary]] = False
        if self.marks is not None:
            self.thoughts[self.marks.close] = True
        self._text_bits, self._thought_bits = (
            np.packbits(tokens, bitorder="little").view(np.int32)
            for tokens in (texts, self.thoughts)
        )
        self._compiled: Any = None
        self._executor: Any = None
        self._matchers: dict[str, Any] = {}

    def start(self, schema: Mapping[str, Any], prompt: str = "") -> Guide:
        """Return the guide of one new reply.

        prompt: the text before the reply; a think block may have been opened there, or closed.
        ValueError for a schema that llguidance does not know how to hold to.
        """
        place: Place = "start"
        if self.marks is None or self.marks.closed(prompt):
            place = "reply"
        elif self.marks.left_open(prompt):
            place = "thinking"
        return Guide(self, self._matcher(schema).deep_copy(), place)

    def fill(self, rows: Sequence[Guide | None], bits: torch.Tensor) -> None:
        """Fill in which tokens may come next, side by side and without the interpreter's lock.

        bits: (rows, words) int32 on the CPU, a bit each, the first the lowest, all of them set before.
        """
        held = []
        for place, guide in enumerate(rows):
            if guide is not None and guide.place == "thinking":
                bits[place] = torch.from_numpy(self._thought_bits)
            elif guide is not None and guide.place != "free":
                held.append((guide, place))
        if not held:
            return
        self._executor.unsafe_compute_mask_ptr(
            [(guide.matcher, place) for guide, place in held],
            bits.data_ptr(), 4 * self.words, len(bits),
        )  # fmt: skip
        array = bits.numpy()
        for guide, place in held:
            if guide.lost():
                array[place] = -1
                continue
            array[place] &= self._text_bits
            if guide.place == "start" and self.marks is not None:
                array.view(np.uint8)[place, self.marks.open // 8] |= 1 << self.marks.open % 8

    def _matcher(self, schema: Mapping[str, Any]) -> Any:
        """Return what every guide of a schema is a copy of."""
        from llguidance import LLExecutor, LLMatcher, LLTokenizer

        if self._compiled is None:
            self._executor = LLExecutor()
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
        self.matcher = matcher

    @property
    def finished(self) -> bool:
        """Whether the reply has ended; tokens after that are padding."""
        return self.place == "free"

    def allows(self, token: int) -> bool:
        """Whether a token may come next; no mask is computed."""
        guides = self.guides
        if self.place == "free":
            return True
        if self.place == "thinking":
            return bool(token < guides.vocabulary and guides.thoughts[token])
        if token in guides.ends:
            return bool(self.matcher.is_accepting())
        if token in guides.refused:
            return self.place == "start" and guides.marks is not None and token == guides.marks.open
        return token < guides.vocabulary and bool(self.matcher.validate_tokens([token]))

    def mask(self) -> torch.Tensor:
        """Return which tokens may come next, (vocabulary,) of bool, on the CPU; at least one may."""
        return allowed_tokens([self], torch.empty(1, self.guides.vocabulary))[0]

    def take(self, token: int) -> None:
        """Go on behind a token; ends are taken too. ValueError for one that is not allowed."""
        if self.place == "free":
            return
        guides, is_text = self.guides, False
        if self.place == "thinking" or token in guides.ends or token in guides.refused:
            takes = self.allows(token)
        else:
            takes = is_text = bool(self.matcher.try_consume_tokens([token]))
        if not takes:
            if self.lost():
                return
            raise ValueError(f"token {token} cannot come next in a guided reply")
        if self.place == "thinking":
            if guides.marks is not None and token == guides.marks.close:
                self.place = "reply"
        elif is_text:
            self.place = "reply"
            self.lost()
        else:
            self.place = "free" if token in guides.ends else "thinking"

    def lost(self) -> bool:
        """Whether llguidance gave up on this reply, as where a text outgrows its limits; it is free then."""
        if not self.matcher.is_error():
            return False
        LOG.warning("a reply goes on without its guide: %s", self.matcher.get_error())
        self.place = "free"
        return True


def allowed_tokens(rows: Sequence[Guide | None], scores: torch.Tensor) -> torch.Tensor:
    """Return which tokens may come next, (rows, vocabulary) of bool, where the scores of the model are.

    Bits are sent there, past a GPU's work that is under way, and become a mask: a vocabulary is long.
    """
    guides = next(guide.guides for guide in rows if guide is not None)
    bits = torch.full((len(rows), guides.words), -1, dtype=torch.int32, pin_memory=scores.is_cuda)
    guides.fill(rows, bits)
    packed = bits.view(torch.uint8).to(scores.device, non_blocking=True)
    shifts = torch.arange(8, dtype=torch.uint8, device=scores.device)
    return (packed[..., None] >> shifts & 1).flatten(1)[:, : scores.shape[1]].bool()


def guides_of(
    model: Any, tokenizer: Any, ends: Sequence[int], marks: Marks | None = None
) -> Guides | None:
    """Return the guides of a model's replies; None, with a warning, where they cannot be guided."""
    if not can_guide(tokenizer, ends):
        LOG.warning("replies are not held to their schema: %s cannot be guided", type(tokenizer))
        return None
    return Guides(tokenizer, model.config.get_text_config().vocab_size, ends, marks)


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
