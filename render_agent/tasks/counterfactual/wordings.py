"""Changes of the wording (`--change order`, `letters`, `units`, `inverse`, `names`). The room stays the same."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Change, Question
from render_agent.tasks.counterfactual.change_plan import ChangePlan, computed_truth
from render_agent.tasks.counterfactual.room import ChangeableRoom, NoCounterpartError
from render_agent.tasks.exact_solver import METRES, UNIT, length_unit, true_answer
from render_agent.tasks.mentions import subjects
from render_agent.tasks.question_types import DIRECTION_TYPES

SHORT_UNITS = {"m": "meters", "cm": "centimeters", "ft": "feet"}

OTHER_SIDE = {"left": "right", "right": "left"}


class Rewording(NamedTuple):
    question: Question  # the question in its new wording
    clause: str
    meaning: tuple[tuple[str, str], ...] = ()  # as in `Change.meaning`; empty for numbers
    factor: float = 1.0


class WordingPlan(ChangePlan):
    """A change of only the wording: the correct answer keeps its meaning."""

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        if question.ground_truth is None:
            raise NoCounterpartError("the question has no ground truth")
        rewording = self.reword(question, seed)
        before = question.ground_truth
        truth = next((new for new, old in rewording.meaning if old == question.ground_truth), None)
        if not rewording.meaning:  # a number: computed from boxes if possible, otherwise converted
            truth = f"{float(question.ground_truth) / rewording.factor:.4g}"
            with suppress(NoCounterpartError):
                before = computed_truth(question, room)
                truth = true_answer(rewording.question, room.facts) if room.facts else truth
        if truth is None:
            raise NoCounterpartError("the ground truth cannot be converted to the new wording")
        change = Change(
            kind=self.label,
            original_id=question.id,
            changes_answer=False,
            description=rewording.clause,
            reason="only the wording changes",
            original_truth=before,
            scene=question.scene,
            option_letters=rewording.meaning,
            factor=rewording.factor,
        )
        name = f"{question.id}-{self.label.replace(':', '-')}"
        return replace(rewording.question, id=name, ground_truth=truth, change=change)

    def reword(self, question: Question, seed: int) -> Rewording:
        """Return the rewording. Raises NoCounterpartError."""
        raise NotImplementedError


def _options(question: Question) -> dict[str, str]:
    if not (options := options_by_letter(question.options)):
        raise NoCounterpartError("the question has no options")
    return options


class Order(WordingPlan):
    """Rotates the options so that none keeps its position."""

    name = "order"
    forms = (name,)

    def reword(self, question: Question, seed: int) -> Rewording:
        """Return the question with its options rotated by a random number of positions."""
        options = _options(question)
        original = [*options]
        step = self.chance(seed, question.id).randrange(1, len(original)) if len(original) > 1 else 0  # fmt: skip
        if not step:
            raise NoCounterpartError("the question has only one option")
        rotation = [*original[step:], *original[:step]]
        texts = tuple(f"{new}. {options[old]}" for new, old in zip(original, rotation, strict=True))
        meaning = tuple(zip(original, rotation, strict=True))
        clause = "the options are in another order"
        return Rewording(replace(question, options=texts), clause, meaning)


class Letters(WordingPlan):
    """Removes the letters of the options, so that the answer is one of the texts."""

    name = "letters"
    forms = (name,)

    def reword(self, question: Question, seed: int) -> Rewording:
        """Return the question with its options listed in the text."""
        options = _options(question)
        words = ", ".join(options.values())
        text = f"{question.text}\nAnswer with one of these, in words: {words}."
        meaning = tuple((word, letter) for letter, word in options.items())
        open_question = replace(question, text=text, options=(), answer_form="text")
        return Rewording(open_question, "the options have no letters", meaning)


class Units(WordingPlan):
    """Asks for a length or an area in another unit."""

    name = "units"
    forms = ("units:m|cm|ft",)

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """True for a known unit."""
        return argument in SHORT_UNITS

    def reword(self, question: Question, seed: int) -> Rewording:
        unit = SHORT_UNITS[self.argument or ""]
        if (current := length_unit(question)) is None:
            raise NoCounterpartError("the question names no unit of length")
        old, is_square = current
        if old == unit:
            raise NoCounterpartError(f"the question already asks for {unit}")
        text = UNIT.sub(lambda match: f"{match[1] or ''}{unit}", question.text, 1)
        factor = (METRES[unit] / METRES[old]) ** (2 if is_square else 1)
        clause = f"{'square ' if is_square else ''}{unit} are requested instead of {old}"
        return Rewording(replace(question, text=text), clause, factor=factor)


class Inverse(WordingPlan):
    """Exchanges the faced object and the target, so that left becomes right."""

    name = "inverse"
    forms = (name,)

    def reword(self, question: Question, seed: int) -> Rewording:
        """Return the question with the last two objects exchanged."""
        names = subjects(question)
        if question.type not in DIRECTION_TYPES or len(names) != 3:
            raise NoCounterpartError("the question does not ask for a direction")
        options = _options(question)
        by_text = {text: letter for letter, text in options.items()}
        meaning = []
        for letter, text in options.items():
            mirror_text = re.sub("left|right", lambda side: OTHER_SIDE[side[0]], text)
            if mirror_text not in by_text:
                raise NoCounterpartError("an option has no mirror image among the options")
            meaning.append((letter, by_text[mirror_text]))
        text = _exchange(question, names[1], names[2])
        clause = f"the {names[1]} and the {names[2]} change places in the question, so left becomes right"
        return Rewording(replace(question, text=text), clause, tuple(meaning))


class Names(WordingPlan):
    """Reorders objects whose order in the question does not matter."""

    name = "names"
    forms = (name,)

    def reword(self, question: Question, seed: int) -> Rewording:
        """Return the question with the two ends of a distance exchanged, or with the list of choices reversed."""
        if question.type == "object_abs_distance" and len(names := subjects(question)) == 2:
            text = _exchange(question, *names)
        elif question.type == "object_rel_distance":
            text = re.sub(
                r"(?<=of these objects \()([^)]{1,1000})(?=\))",
                lambda match: ", ".join(match[0].split(", ")[::-1]),
                question.text,
            )
        else:
            raise NoCounterpartError("the order of the question's objects matters")
        meaning = tuple((letter, letter) for letter in options_by_letter(question.options))
        clause = "the objects are named in another order"
        return Rewording(replace(question, text=text), clause, meaning)


def _exchange(question: Question, first: str, second: str) -> str:
    """Return the text of a question with two objects exchanged."""
    swap = {first: second, second: first}
    pattern = rf"\bthe ({re.escape(first)}|{re.escape(second)})\b"
    return re.sub(pattern, lambda match: f"the {swap[match[1]]}", question.text)
