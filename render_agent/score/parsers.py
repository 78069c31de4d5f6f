"""Reply parsers of common evaluation harnesses, by name, applied before VSI-Bench's metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from render_agent.dialogue.answer import AnswerForm
from render_agent.score import lmms_eval, vlmevalkit
from render_agent.score.summary import OFFICIAL


def _verbatim(answer: str) -> str:
    return answer


@dataclass(frozen=True, slots=True)
class Parser:
    """Extracts a letter or a number from an answer, or None. By default, returns the answer unchanged."""

    letter: Callable[[str], str | None] = _verbatim
    number: Callable[[str], float | str | None] = _verbatim

    def read(self, answer: str | None, form: AnswerForm) -> str | None:
        """Return the text to score."""
        if form in ("text", "pose"):
            return answer
        value = (self.letter if form == "letter" else self.number)(answer or "")
        return None if value is None else str(value)


PARSERS: dict[str, Parser] = {
    OFFICIAL: Parser(),
    "lmms-eval": Parser(number=lmms_eval.first_number),
    "vlmevalkit": Parser(vlmevalkit.letter, vlmevalkit.tagged_number),
}
