"""Changes of a room: objects are added, removed, moved or swapped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations, islice, product
from typing import ClassVar, TypeVar

from render_agent.dialogue.question import Question
from render_agent.parts.counterfactual.change_plan import OTHER, ChangePlan
from render_agent.parts.counterfactual.room import (
    ChangeableRoom,
    NoCounterpartError,
    UnsolvableError,
)
from render_agent.scans.edits import Edit, ObjectKey
from render_agent.tasks.question_types import named_categories, subjects, type_of

MAX_ATTEMPTS = 2000  # edits tried per question before the question is skipped

Option = tuple[list[Edit], str]  # possible edits, and a clause that describes them

Entry = TypeVar("Entry")


def collect_possible(attempts: Iterable[Callable[[], Iterable[Entry]]]) -> Iterator[Entry]:
    """Yield the results of all attempts, and skip those that raise NoCounterpartError."""
    reason: NoCounterpartError | None = None
    has_results = False
    for attempt in attempts:
        try:
            for result in attempt():
                has_results = True
                yield result
        except NoCounterpartError as error:
            reason = reason or error
    if reason is not None and not has_results:
        raise reason


def is_counted(question: Question) -> bool:
    """Return True if every object of a named category matters."""
    return type_of(question).needs == "every object"


class ObjectPlan(ChangePlan):
    """A change of an object.

    The argument selects the object's category. By default, the category is named in the question; with `other`, it is
    not.
    """

    relocates: ClassVar[bool] = False
    """True if objects move, so that distances and directions can change."""

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """True for any category, or none."""
        return argument is None or bool(argument.strip())

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Yield the possible edits, preferred ones first. Raises NoCounterpartError."""
        raise NotImplementedError

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the question about the room after the first edit that yields a clear answer.

        If no category was requested and objects named in the question move, the answer must change.
        """
        reason: NoCounterpartError | None = None
        for edits, clause in islice(self.options(question, room, seed), MAX_ATTEMPTS):
            try:
                counterpart = self.of_room(question, room, edits, clause)
            except UnsolvableError:
                raise
            except NoCounterpartError as error:
                reason = reason or error
                continue
            if not self._must_change_answer(question) or (
                counterpart.change is not None and counterpart.change.changes_answer
            ):
                return counterpart
            reason = reason or NoCounterpartError("no possible edit changes the answer")
        raise reason or NoCounterpartError("there is no free place")

    def _must_change_answer(self, question: Question) -> bool:
        """Return True if only edits that change the answer qualify."""
        changes = type_of(question).depends_on_places
        return self.relocates and self.argument is None and changes

    def labels(
        self, question: Question, room: ChangeableRoom, seed: int, *, prefer_named: bool
    ) -> list[str]:
        """Return the categories to change, preferred ones first."""
        if self.argument not in (None, OTHER):
            category = str(self.argument).strip().lower()
            return [next((label for label, _ in room.boxes if label.lower() == category), category)]
        names = named_categories(question)
        labels = list(dict.fromkeys(label for label, _ in room.boxes))
        if prefer_named and names and self.argument is None:
            subject_names = [name for name in subjects(question) if name]
            return list(
                dict.fromkeys(
                    [*subject_names, *(label for label in labels if label.lower() in names)]
                )
            )
        # Shuffle before filtering, so that the order is the same for all questions about the room.
        self.chance(seed, question.scene).shuffle(labels)
        return [label for label in labels if label.lower() not in names]

    def _objects_of(
        self, room: ChangeableRoom, label: str, seed: int, scene: str
    ) -> list[ObjectKey]:
        """Return the editable objects of a category, in a random order shared by all questions."""
        keys = room.loose(label)
        self.chance(seed, scene, label).shuffle(keys)
        return keys

    def _candidates(
        self, question: Question, room: ChangeableRoom, seed: int, *, prefer_named: bool
    ) -> Iterator[ObjectKey]:
        """Yield the editable objects, category by category. Raises NoCounterpartError."""
        labels = self.labels(question, room, seed, prefer_named=prefer_named)
        if not labels:
            raise NoCounterpartError("the question names every object in the room")
        yield from collect_possible(
            partial(self._objects_of, room, label, seed, question.scene) for label in labels
        )

    def _refuse_count_change(self, question: Question, key: ObjectKey) -> None:
        """Raise NoCounterpartError if the question refers to a single object of a category whose count would change."""
        if not is_counted(question) and key[0].lower() in named_categories(question):
            raise NoCounterpartError("the question names the category whose count would change")


class Remove(ObjectPlan):
    """Removes an object: one of the counted category, or otherwise one that the question does not name."""

    name = "remove"
    forms = ("remove[:CATEGORY]",)

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Yield the objects that can be removed."""
        for key in self._candidates(question, room, seed, prefer_named=is_counted(question)):
            self._refuse_count_change(question, key)
            yield [Edit("remove", *key)], f"one {key[0]} is removed"


class Add(ObjectPlan):
    """Adds a copy of an object: one of the counted category, or otherwise one that the question does not name."""

    name = "add"
    forms = ("add[:CATEGORY]",)

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Yield a free place for a copy of each object that can be copied."""

        def copies(key: ObjectKey) -> list[Option]:
            self._refuse_count_change(question, key)
            rng = self.chance(seed, question.scene, *map(str, key))
            return [
                ([Edit("copy", *key, shift=shift)], f"one {key[0]} is added")
                for shift in islice(room.places(key, rng, is_copy=True), 1)
            ]

        keys = self._candidates(question, room, seed, prefer_named=is_counted(question))
        yield from collect_possible(partial(copies, key) for key in keys)


class Move(ObjectPlan):
    """Moves one object: one that the question names or, with `other`, one that it does not."""

    name = "move"
    forms = ("move[:CATEGORY|:other]",)
    relocates = True

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Yield the free places of each object that can be moved."""

        def moves(key: ObjectKey) -> Iterator[Option]:
            rng = self.chance(seed, question.scene, *map(str, key))
            for shift in room.places(key, rng):
                yield [Edit("transform", *key, shift=shift)], f"one {key[0]} is moved"

        keys = self._candidates(question, room, seed, prefer_named=True)
        yield from collect_possible(partial(moves, key) for key in keys)


class Swap(ObjectPlan):
    """Swaps two objects: two named in the question, or a named and an unnamed one; with `other`, two unnamed ones."""

    name = "swap"
    forms = ("swap[:other]",)
    relocates = True

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """True for no argument and for `other`."""
        return argument in (None, OTHER)

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Yield the pairs of objects that fit into each other's places."""
        named_keys = list(self._candidates(question, room, seed, prefer_named=True))
        other_keys = (
            []
            if self.argument
            else list(self._candidates(question, room, seed, prefer_named=False))
        )
        num_pairs = 0
        for key, other_key in (*combinations(named_keys, 2), *product(named_keys, other_keys)):
            if key[0] == other_key[0] or key == other_key:
                continue
            if (shifts := room.swap(key, other_key)) is None:
                continue
            num_pairs += 1
            edits = [Edit("transform", *key, shift=shift) for key, shift in zip((key, other_key), shifts, strict=True)]  # fmt: skip
            yield edits, f"the {key[0]} and the {other_key[0]} change places"
        if not num_pairs:
            raise NoCounterpartError("no two objects fit into each other's places")
