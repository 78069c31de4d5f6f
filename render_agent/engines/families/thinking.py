"""Thinking: how each family's chat template turns it on or off, and the marks around a thought.

In the log, a thought is always a `<think>` block, regardless of the family's marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from render_agent.dialogue.parsing.tool_calls import TOOL_MARKS
from render_agent.errors import SetupError, UsageError

THINK, END_OF_THINK = "<think>", "</think>"  # in the log, and for most families


@dataclass(frozen=True, slots=True)
class Thinking:
    """The thinking format of a family."""

    switch: str = "enable_thinking"
    """Argument of the chat template that turns thinking on and off."""
    on: Any = True
    """Value of `switch` that turns thinking on."""
    off: Any = False
    """Value of `switch` that turns thinking off."""
    opens: str = THINK
    """Mark before a thought."""
    closes: str = END_OF_THINK
    """Mark after a thought."""

    def arguments(self, mode: str, template_kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the chat template."""
        values = {"on": self.on, "off": self.off}
        if mode in values and self.switch in template_kwargs:
            raise UsageError(
                f"--thinking {mode} and chat_template_kwargs both set {self.switch}. Omit one of them."
            )
        return {**template_kwargs, **({self.switch: values[mode]} if mode in values else {})}

    def check(self, processor: Any, mode: str) -> None:
        """Raise SetupError if `--thinking` is on or off but has no effect on the chat template."""
        if mode not in ("on", "off"):
            return
        messages = [{"role": "user", "content": [{"type": "text", "text": "Where is the door?"}]}]
        texts = {
            processor.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **{self.switch: value}
            )
            for value in (self.on, self.off)
        }
        if len(texts) == 1:
            raise SetupError(
                f"--thinking {mode} has no effect: the model's chat template does not support"
                f" {self.switch}. Omit --thinking, or use another model."
            )

    def marks(self, tokenizer: Any) -> Marks | None:
        """Return the family's marks, or else the usual ones, as tokens; None if the tokenizer has neither."""
        tokens: dict[str, int] = tokenizer.get_added_vocab()
        for opens, closes in ((self.opens, self.closes), (THINK, END_OF_THINK)):
            if opens in tokens and closes in tokens:
                return Marks(opens, closes, tokens[opens], tokens[closes])
        return None


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of thoughts in one vocabulary."""

    opens: str
    closes: str
    open: int
    """Token id of `opens`."""
    close: int
    """Token id of `closes`."""

    def left_open(self, prompt: str) -> bool:
        """True if a prompt ends inside a thought. Marks in texts from outside are escaped."""
        return prompt.rfind(self.opens) > prompt.rfind(self.closes)

    def opened_by(self, ids: Sequence[int]) -> bool:
        """True if the tokens of a prompt end inside a thought."""
        marks = (token for token in reversed(ids) if token in (self.open, self.close))
        return next(marks, self.close) == self.open

    def closed(self, prompt: str) -> bool:
        """True if a prompt ends with a closed thought, so that the model replies without thinking."""
        return prompt.rstrip().endswith(self.closes)


def reply_text(
    tokenizer: Any,
    marks: Marks | None,  # the marks of thoughts; None if the model has none
    ids: Sequence[int],
    *,
    opened: bool = False,
) -> str:
    """Decode the tokens of a reply without special tokens but those of tool calls, with thoughts as think blocks.

    If the prompt ended inside a thought (`opened`) that the reply does not close, the opening mark is added.
    """

    def decode(part: Sequence[int]) -> str:
        text: str = tokenizer.decode(
            list(part), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    kept_tokens = dict(_special_tool_marks(tokenizer))
    if marks is not None:
        kept_tokens |= {marks.open: THINK, marks.close: END_OF_THINK}
    text, start = "", 0
    for index, token in enumerate(ids):
        if token in kept_tokens:
            text += decode(ids[start:index]) + kept_tokens[token]
            start = index + 1
    text += decode(ids[start:])
    return THINK + text if opened and marks is not None and marks.close not in ids else text


@lru_cache(maxsize=1)  # a tokenizer can have thousands of added tokens
def _special_tool_marks(tokenizer: Any) -> Mapping[int, str]:
    return {
        token: added.content
        for token, added in tokenizer.added_tokens_decoder.items()
        if added.special and added.content in TOOL_MARKS
    }


@dataclass(eq=False)
class Thought:
    """Tracks the thoughts of one reply, token by token."""

    marks: Marks
    is_open: bool = False
    budget: int | None = None
    """Maximum number of tokens; None for no limit."""
    tokens: int = 0
    """Tokens between the marks so far."""
    spent: int = 0
    """Tokens so far, including the marks."""

    @classmethod
    def of(cls, marks: Marks, ids: Sequence[int], *, opened: bool) -> Thought:
        """Return the state after a complete reply."""
        state = cls(marks, opened)
        for token in ids:
            state.take(token)
        return state

    @property
    def due(self) -> int | None:
        """The closing mark if the budget of an open thought is used up, otherwise None."""
        is_full = self.is_open and self.budget is not None and self.tokens >= self.budget
        return self.marks.close if is_full else None

    def take(self, token: int) -> None:
        """Update the state with the next token of the reply."""
        if self.is_open or token == self.marks.open:
            self.spent += 1
            self.tokens += self.is_open and token != self.marks.close
            self.is_open = token != self.marks.close
