"""How the harnesses in use read a reply before VSI-Bench's metrics score it, by name."""

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
    """Finds a letter or a number in an answer, None if there is none; by default as metrics themselves read it."""

    letter: Callable[[str], str | None] = _verbatim
    number: Callable[[str], float | str | None] = _verbatim

    def read(self, answer: str | None, form: AnswerForm) -> str | None:
        """Return what a metric is to score."""
        if form == "text":
            return answer
        found = (self.letter if form == "letter" else self.number)(answer or "")
        return None if found is None else str(found)


PARSERS: dict[str, Parser] = {
    OFFICIAL: Parser(),
    "lmms-eval": Parser(number=lmms_eval.number),
    "vlmevalkit": Parser(vlmevalkit.letter, vlmevalkit.number),
}
