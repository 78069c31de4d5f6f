"""Changes of the wording (`--change order`, `names`). The room stays the same."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Change, Question
from render_agent.parts.counterfactual.change_plan import ChangePlan
from render_agent.parts.counterfactual.room import ChangeableRoom, NoCounterpartError
from render_agent.tasks.question_types import subjects, type_of


class Rewording(NamedTuple):
    question: Question  # the question in its new wording
    clause: str
    meaning: tuple[tuple[str, str], ...] = ()  # as in `Change.meaning`; empty for numbers


class WordingPlan(ChangePlan):
    """A change of only the wording: the correct answer keeps its meaning."""

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        if question.ground_truth is None:
            raise NoCounterpartError("the question has no ground truth")
        rewording = self.reword(question, seed)
        truths = {old: new for new, old in rewording.meaning}
        truth = truths.get(question.ground_truth) if truths else question.ground_truth
        if truth is None:
            raise NoCounterpartError("the ground truth is none of the options")
        change = Change(
            kind=self.label,
            original_id=question.id,
            changes_answer=False,
            description=rewording.clause,
            reason="only the wording changes",
            original_truth=question.ground_truth,
            scene=question.scene,
            option_letters=rewording.meaning,
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


class Names(WordingPlan):
    """Reorders objects whose order in the question does not matter."""

    name = "names"
    forms = (name,)

    def reword(self, question: Question, seed: int) -> Rewording:
        """Return the question with the two ends of a distance exchanged, or with the list of choices reversed."""
        text = type_of(question).reorder(question, subjects(question))
        if text is None:
            raise NoCounterpartError("the order of the question's objects matters")
        meaning = tuple((letter, letter) for letter in options_by_letter(question.options))
        clause = "the objects are named in another order"
        return Rewording(replace(question, text=text), clause, meaning)
