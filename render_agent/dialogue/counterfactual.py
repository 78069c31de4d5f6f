"""A change: what makes a question the counterpart of another, in a room or in words that differ in one thing."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from render_agent.dialogue.answer import canonical
from render_agent.scans.edits import Edit
from render_agent.util.numbers import only_number


class Change(Struct, frozen=True):
    """What makes a question a counterpart.

    asked: the value of `--change`. of: the id of the question that it is the counterpart of. must: whether
    the right answer differs. said: what is changed. why: why the answer must, or must not, differ; a clause each.
    before: what is right of the other question, by the same solver. edits: of the scene, none where only words
    are changed; scene: its name before them. meaning: each
    letter, or word where words are asked for, with the letter that the other question has for it. factor: the unit that is
    asked for, in that of the other question.
    """

    asked: str
    of: str
    must: bool
    said: str
    why: str
    before: str
    scene: str
    edits: tuple[Edit, ...] = ()
    meaning: tuple[tuple[str, str], ...] = ()
    factor: Annotated[float, Meta(gt=0, le=1e9)] = 1.0

    def as_before(self, answer: str | None) -> str | None:
        """Return an answer in the letters and the unit of the other question, None where it has none there."""
        if answer is None:
            return None
        meaning = dict(self.meaning)
        if not meaning:
            number = None if self.factor == 1 else only_number(answer)
            return answer if number is None else f"{float(number) * self.factor:.6g}"
        if answer in meaning:
            return meaning[answer]
        letter = canonical(answer, "letter", [*meaning])
        return None if letter is None else [*meaning.values()][ord(letter) - ord("A")]
