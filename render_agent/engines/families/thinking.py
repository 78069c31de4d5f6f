"""Thinking: how each family is asked to think or not, and the marks around its thoughts.

A thought stands in the log as a `<think>` block, whatever the family's own marks are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.errors import SetupError, UsageError
from render_agent.options import AUTO

THINK, END_OF_THINK = "<think>", "</think>"
"""The marks of a thought in the log, and those of most families."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a family thinks.

    switch: what its chat template takes by name, with the values that turn thinking on and off. opens, closes: the
    marks that a thought stands between.
    """

    switch: str = "enable_thinking"
    on: Any = True
    off: Any = False
    opens: str = THINK
    closes: str = END_OF_THINK

    def arguments(self, wanted: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of a chat template: those of the engine option, and that of `--thinking`.

        UsageError where both say whether to think.
        """
        values = {"on": self.on, "off": self.off}
        if wanted in values and self.switch in given:
            raise UsageError(
                f"--thinking {wanted} sets {self.switch} of chat_template_kwargs: leave one of them out"
            )
        return {**given, **({self.switch: values[wanted]} if wanted in values else {})}

    def check(self, processor: Any, wanted: str) -> None:
        """SetupError where thinking is to be turned on or off, and the chat template says the same for both."""
        if wanted == AUTO:
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
                f"--thinking {wanted}: the model's chat template does not know {self.switch}, so that whether it"
                " thinks cannot be said to it: leave --thinking out, or name a model that can be told"
            )

    def marks(self, tokenizer: Any) -> Marks | None:
        """Return the marks as a tokenizer's tokens, its own family's or the usual ones; None where it has neither."""
        tokens: dict[str, int] = tokenizer.get_added_vocab()
        for opens, closes in ((self.opens, self.closes), (THINK, END_OF_THINK)):
            if opens in tokens and closes in tokens:
                return Marks(opens, closes, tokens[opens], tokens[closes])
        return None


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of thoughts in one vocabulary: their texts, and their tokens."""

    opens: str
    closes: str
    open: int
    close: int

    def left_open(self, prompt: str) -> bool:
        """Whether a prompt ends within a thought; no text from outside holds a mark."""
        return prompt.rfind(self.opens) > prompt.rfind(self.closes)

    def opened_by(self, ids: Sequence[int]) -> bool:
        """Whether tokens, those of a prompt, end within a thought."""
        marks = (token for token in reversed(ids) if token in (self.open, self.close))
        return next(marks, self.close) == self.open

    def closed(self, prompt: str) -> bool:
        """Whether a prompt ends with a thought that is closed already, so that the reply begins at once."""
        return prompt.rstrip().endswith(self.closes)


def reply_text(
    tokenizer: Any, marks: Marks | None, ids: Sequence[int], *, opened: bool = False
) -> str:
    """Return the text of a reply's tokens, special ones left out, its thoughts in think blocks.

    opened: whether the prompt ended within a thought; one that the reply leaves open is opened in the text, too.
    """

    def decoded(some: Sequence[int]) -> str:
        words: str = tokenizer.decode(
            list(some), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return words

    if marks is None:
        return decoded(ids)
    words, start = "", 0
    for place, token in enumerate(ids):
        if token in (marks.open, marks.close):
            words += decoded(ids[start:place]) + (THINK if token == marks.open else END_OF_THINK)
            start = place + 1
    words += decoded(ids[start:])
    return THINK + words if opened and marks.close not in ids else words


@dataclass(eq=False)
class Thought:
    """What one reply thinks: whether a thought is open, and its tokens so far.

    budget: how many those may be; None for any number. tokens: those between the marks, and spent: with the marks.
    """

    marks: Marks
    is_open: bool = False
    budget: int | None = None
    tokens: int = 0
    spent: int = 0

    @classmethod
    def of(cls, marks: Marks, ids: Sequence[int], *, opened: bool) -> Thought:
        """Return the thought of a reply that is written."""
        thought = cls(marks, opened)
        for token in ids:
            thought.take(token)
        return thought

    @property
    def due(self) -> int | None:
        """The mark that has to come next, where a thought has had its budget."""
        full = self.is_open and self.budget is not None and self.tokens >= self.budget
        return self.marks.close if full else None

    def take(self, token: int) -> None:
        """Go on behind a token of the reply."""
        if self.is_open or token == self.marks.open:
            self.spent += 1
            self.tokens += self.is_open and token != self.marks.close
            self.is_open = token != self.marks.close
