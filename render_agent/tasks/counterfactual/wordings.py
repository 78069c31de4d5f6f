"""`--change order`, `letters`, `units`, `inverse` and `names`: the same question in other words, of the same room."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from render_agent.dialogue.answer import letters
from render_agent.dialogue.question import Change, Question
from render_agent.tasks.counterfactual.change_plan import ChangePlan, known_truth
from render_agent.tasks.counterfactual.room import ChangeableRoom, NoPair
from render_agent.tasks.exact_solver import METRES, UNIT, length_unit, true_answer
from render_agent.tasks.mentions import subjects
from render_agent.tasks.question_types import DIRECTION_TYPES

SHORT_UNITS = {"m": "meters", "cm": "centimeters", "ft": "feet"}

OTHER_SIDE = {"left": "right", "right": "left"}


class Rewording(NamedTuple):
    """A question in other words.

    clause: what is changed. meaning: each letter or word with the letter that it was; none for numbers.
    factor: the unit that is asked for, in that of the question before.
    """

    question: Question
    clause: str
    meaning: tuple[tuple[str, str], ...] = ()
    factor: float = 1.0


class WordingPlan(ChangePlan):
    """A change of words alone: whatever is right stays right."""

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the question in other words. NoPair where it cannot be asked so."""
        if question.truth is None:
            raise NoPair("nobody knows the question's truth")
        new = self.reworded(question, seed)
        before = question.truth
        truth = next((letter for letter, old in new.meaning if old == question.truth), None)
        if not new.meaning:  # a number: exact where the boxes tell it, else what the benchmark says
            truth = f"{float(question.truth) / new.factor:.4g}"
            with suppress(NoPair):
                before = known_truth(question, room)
                truth = true_answer(new.question, room.facts) if room.facts else truth
        if truth is None:
            raise NoPair("nobody knows its truth in other words")
        change = Change(
            asked=self.label,
            of=question.id,
            must=False,
            said=new.clause,
            why="the same is asked of the same room",
            before=before,
            scene=question.scene,
            meaning=new.meaning,
            factor=new.factor,
        )
        name = f"{question.id}-{self.label.replace(':', '-')}"
        return replace(new.question, id=name, truth=truth, change=change)

    def reworded(self, question: Question, seed: int) -> Rewording:
        """Return the question in other words. NoPair where it cannot be asked so."""
        raise NotImplementedError


def _options(question: Question) -> dict[str, str]:
    if not (options := letters(question.options)):
        raise NoPair("it has no options")
    return options


class Order(WordingPlan):
    """The options stand in another order, none at its old place."""

    name = "order"
    forms = (name,)

    def reworded(self, question: Question, seed: int) -> Rewording:
        """Return the question with its options shifted round by a step of chance."""
        options = _options(question)
        old = [*options]
        step = self.chance(seed, question.id).randrange(1, len(old)) if len(old) > 1 else 0
        if not step:
            raise NoPair("it has one option")
        shifted = [*old[step:], *old[:step]]
        texts = tuple(f"{letter}. {options[other]}" for letter, other in zip(old, shifted, strict=True))  # fmt: skip
        meaning = tuple(zip(old, shifted, strict=True))
        clause = "the options stand in another order"
        return Rewording(replace(question, options=texts), clause, meaning)


class Letters(WordingPlan):
    """The options are words to choose from, without letters."""

    name = "letters"
    forms = (name,)

    def reworded(self, question: Question, seed: int) -> Rewording:
        """Return the question with its options as words in its text."""
        options = _options(question)
        words = ", ".join(options.values())
        text = f"{question.text}\nAnswer with one of these, in words: {words}."
        meaning = tuple((word, letter) for letter, word in options.items())
        open_question = replace(question, text=text, options=(), wanted="text")
        return Rewording(open_question, "the options have no letters", meaning)


class Units(WordingPlan):
    """A measure is asked for in another unit."""

    name = "units"
    forms = ("units:m|cm|ft",)

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether it is a unit."""
        return argument in SHORT_UNITS

    def reworded(self, question: Question, seed: int) -> Rewording:
        """Return the question with the unit exchanged."""
        unit = SHORT_UNITS[self.argument or ""]
        if (named := length_unit(question)) is None:
            raise NoPair("it names no unit of length")
        old, squared = named
        if old == unit:
            raise NoPair(f"it asks for {unit} already")
        text = UNIT.sub(lambda match: f"{match[1] or ''}{unit}", question.text, 1)
        factor = (METRES[unit] / METRES[old]) ** (2 if squared else 1)
        clause = f"{'square ' if squared else ''}{unit} are asked for, not {old}"
        return Rewording(replace(question, text=text), clause, factor=factor)


class Inverse(WordingPlan):
    """Who is faced and who is looked for change places, so that left becomes right."""

    name = "inverse"
    forms = (name,)

    def reworded(self, question: Question, seed: int) -> Rewording:
        """Return the question with the last two objects exchanged."""
        names = subjects(question)
        if question.type not in DIRECTION_TYPES or len(names) != 3:
            raise NoPair("it asks for no direction")
        options = _options(question)
        by_text = {text: letter for letter, text in options.items()}
        meaning = []
        for letter, text in options.items():
            turned = re.sub("left|right", lambda side: OTHER_SIDE[side[0]], text)
            if turned not in by_text:
                raise NoPair("an option has no counterpart on the other side")
            meaning.append((letter, by_text[turned]))
        text = _exchanged(question, names[1], names[2])
        clause = f"the {names[1]} and the {names[2]} change places in the question: left is right"
        return Rewording(replace(question, text=text), clause, tuple(meaning))


class Names(WordingPlan):
    """The objects that are named alike stand in another order."""

    name = "names"
    forms = (name,)

    def reworded(self, question: Question, seed: int) -> Rewording:
        """Return the question with the two ends of a distance, or the objects to choose from, the other way round."""
        if question.type == "object_abs_distance" and len(names := subjects(question)) == 2:
            text = _exchanged(question, *names)
        elif question.type == "object_rel_distance":
            text = re.sub(
                r"(?<=of these objects \()([^)]+)(?=\))",
                lambda match: ", ".join(match[0].split(", ")[::-1]),
                question.text,
            )
        else:
            raise NoPair("it names no objects alike")
        meaning = tuple((letter, letter) for letter in letters(question.options))
        clause = "the objects are named in another order"
        return Rewording(replace(question, text=text), clause, meaning)


def _exchanged(question: Question, first: str, second: str) -> str:
    """Return the text of a question with two of its objects exchanged wherever it names them."""
    swap = {first: second, second: first}
    named = rf"\bthe ({re.escape(first)}|{re.escape(second)})\b"
    return re.sub(named, lambda match: f"the {swap[match[1]]}", question.text)
