"""Constrains replies to a JSON schema, token by token, with llguidance.

A guided reply is one JSON object followed by an end token. Keys are in the order of the schema (optional ones can be
missing), there is at most one line break or space between JSON tokens, and only a think block and up to two line breaks
can precede the object. Numbers respect the bounds of the schema. Control tokens (images, roles, tools) do not occur.
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

# Allowed between two JSON tokens: a space, or a new line with indentation.
WHITESPACE = r"\n {0,8}| "

# First release of llguidance that can limit whitespace; vLLM 0.32 requires an older one. With older releases, whitespace
# is allowed only after commas and colons, and escapes such as `\u0041` are not generated.
MIN_BOUNDED_RELEASE = (1, 9)

MAX_MATCHERS = 256  # compiled schemas that are kept; a benchmark has about six

State = Literal["start", "thinking", "reply", "free"]


class Guides:
    """Creates guides for one model. The tokenizer and each schema are compiled once, when needed.

    Compiling takes a few seconds for a tokenizer with 150,000 tokens, and milliseconds for a schema. There must be an end
    token, and a fast tokenizer.
    """

    def __init__(
        self, tokenizer: Any, vocabulary: int, ends: Sequence[int], marks: Marks | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.ends = frozenset(ends)
        added_vocab: dict[str, int] = tokenizer.get_added_vocab()
        added = {text: token for text, token in added_vocab.items() if token < vocabulary}
        self.marks = marks or Thinking().marks(tokenizer)
        self.control_tokens = (
            frozenset(token for text, token in added.items() if MARKER.fullmatch(text)) - self.ends
        )
        # llguidance's masks consist of 32-bit words, one bit per token.
        self.words = -(-max(vocabulary, len(tokenizer)) // 32)
        text_tokens = np.arange(32 * self.words) < vocabulary
        text_tokens[list(self.control_tokens)] = False
        self.thought_tokens = text_tokens & (np.arange(len(text_tokens)) < len(tokenizer))
        self.thought_tokens[[token for token in self.ends if token < vocabulary]] = False
        if self.marks is not None:
            self.thought_tokens[self.marks.close] = True
        self._text_bits, self._thought_bits = (
            np.packbits(tokens, bitorder="little").view(np.int32)
            for tokens in (text_tokens, self.thought_tokens)
        )
        self._compiled: Any = None
        self._executor: Any = None
        self._matchers: dict[str, Any] = {}

    def start(self, schema: Mapping[str, Any], prompt: str = "") -> Guide:
        """Return the guide for a new reply to a prompt, whose text may open or close a think block.

        Raises ValueError if llguidance does not support the schema.
        """
        state: State = "start"
        if self.marks is None or self.marks.closed(prompt):
            state = "reply"
        elif self.marks.left_open(prompt):
            state = "thinking"
        return Guide(self, self._matcher(schema).deep_copy(), state)

    def fill(self, rows: Sequence[Guide | None], bits: torch.Tensor) -> None:
        """Compute the masks of allowed next tokens for all rows, in parallel and without holding the GIL.

        `bits` is the output, (rows, words) int32 on the CPU, one bit per token with the lowest bit first, all set before.
        """
        guided = []
        for index, guide in enumerate(rows):
            if guide is not None and guide.state == "thinking":
                bits[index] = torch.from_numpy(self._thought_bits)
            elif guide is not None and guide.state != "free":
                guided.append((guide, index))
        if not guided:
            return
        self._executor.unsafe_compute_mask_ptr(
            [(guide.matcher, index) for guide, index in guided],
            bits.data_ptr(), 4 * self.words, len(bits),
        )  # fmt: skip
        array = bits.numpy()
        for guide, index in guided:
            if guide.has_failed():
                array[index] = -1
                continue
            array[index] &= self._text_bits
            if guide.state == "start" and self.marks is not None:
                array.view(np.uint8)[index, self.marks.open // 8] |= 1 << self.marks.open % 8

    def _matcher(self, schema: Mapping[str, Any]) -> Any:
        """Return the compiled matcher of a schema, which every guide copies."""
        from llguidance import LLExecutor, LLMatcher, LLTokenizer

        if self._compiled is None:
            self._executor = LLExecutor()
            self._compiled = LLTokenizer(
                self.tokenizer.backend_tokenizer.to_str(),
                n_vocab=max(self.vocabulary, len(self.tokenizer)),
                eos_token=sorted(self.ends),
            )
        grammar = build_grammar(schema)
        if grammar not in self._matchers:
            if len(self._matchers) == MAX_MATCHERS:
                del self._matchers[next(iter(self._matchers))]
            matcher = LLMatcher(self._compiled, grammar, log_level=0)
            if matcher.is_error():
                raise ValueError(f"the schema is not supported: {matcher.get_error()}")
            self._matchers[grammar] = matcher
        return self._matchers[grammar]


class Guide:
    """Constrains one reply to its schema.

    A greedy reply needs the mask only if its most likely token is not allowed. If the schema leaves only one text, the
    mask contains only the token that the tokenizer would produce.
    """

    def __init__(self, guides: Guides, matcher: Any, state: State) -> None:
        self.guides = guides
        self.state: State = state
        self.matcher = matcher

    @property
    def finished(self) -> bool:
        """True if the reply has ended; further tokens are padding."""
        return self.state == "free"

    def allows(self, token: int) -> bool:
        """True if a token is allowed next; does not compute the mask."""
        guides = self.guides
        if self.state == "free":
            return True
        if self.state == "thinking":
            return bool(token < guides.vocabulary and guides.thought_tokens[token])
        if token in guides.ends:
            return bool(self.matcher.is_accepting())
        if token in guides.control_tokens:
            return self.state == "start" and guides.marks is not None and token == guides.marks.open
        return token < guides.vocabulary and bool(self.matcher.validate_tokens([token]))

    def mask(self) -> torch.Tensor:
        """Return the mask of allowed next tokens, (vocabulary,) bool on the CPU; at least one is allowed."""
        return allowed_tokens([self], torch.empty(1, self.guides.vocabulary))[0]

    def take(self, token: int) -> None:
        """Advance by one token. Raises ValueError if the token is not allowed."""
        if self.state == "free":
            return
        guides, is_text = self.guides, False
        if self.state == "thinking" or token in guides.ends or token in guides.control_tokens:
            is_allowed = self.allows(token)
        else:
            is_allowed = is_text = bool(self.matcher.try_consume_tokens([token]))
        if not is_allowed:
            if self.has_failed():
                return
            raise ValueError(f"token {token} is not allowed next in a guided reply")
        if self.state == "thinking":
            if guides.marks is not None and token == guides.marks.close:
                self.state = "reply"
        elif is_text:
            self.state = "reply"
            self.has_failed()
        else:
            self.state = "free" if token in guides.ends else "thinking"

    def has_failed(self) -> bool:
        """Return True and stop constraining the reply if llguidance has failed, for example at its size limits."""
        if not self.matcher.is_error():
            return False
        LOG.warning("a reply is no longer constrained to its schema: %s", self.matcher.get_error())
        self.state = "free"
        return True


def allowed_tokens(rows: Sequence[Guide | None], scores: torch.Tensor) -> torch.Tensor:
    """Return the mask of allowed next tokens, (rows, vocabulary) bool, on the device of the scores.

    Packed bits are copied to the device asynchronously and expanded there, because a vocabulary is large.
    """
    guides = next(guide.guides for guide in rows if guide is not None)
    bits = torch.full((len(rows), guides.words), -1, dtype=torch.int32, pin_memory=scores.is_cuda)
    guides.fill(rows, bits)
    packed = bits.view(torch.uint8).to(scores.device, non_blocking=True)
    shifts = torch.arange(8, dtype=torch.uint8, device=scores.device)
    return (packed[..., None] >> shifts & 1).flatten(1)[:, : scores.shape[1]].bool()


def make_guides(
    model: Any, tokenizer: Any, ends: Sequence[int], marks: Marks | None = None
) -> Guides | None:
    """Return the guides for a model; None, with a warning, if its tokenizer is not supported."""
    if not ends or getattr(tokenizer, "backend_tokenizer", None) is None:
        LOG.warning(
            "replies are not constrained to their schema: %s is not supported", type(tokenizer)
        )
        return None
    return Guides(tokenizer, model.config.get_text_config().vocab_size, ends, marks)


def build_grammar(schema: Mapping[str, Any]) -> str:
    """Return the Lark grammar of a reply: up to two line breaks, then one object that matches the schema."""
    options: dict[str, Any] = {
        "whitespace_pattern": WHITESPACE,
        "json_allow_general_unicode_escapes": True,
    }
    if _release() < MIN_BOUNDED_RELEASE:
        separators = {"item_separator": f",({WHITESPACE})?", "key_separator": f":({WHITESPACE})?"}
        options = {"whitespace_flexible": False, **separators}
    guided_schema = {**schema, "x-guidance": options}
    return f"start: /\\n{{0,2}}/ reply\nreply: %json {json.dumps(guided_schema)}\n"


def _release() -> tuple[int, ...]:
    return tuple(int(number) for number in version("llguidance").split(".")[:2])
