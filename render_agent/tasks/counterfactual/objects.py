"""Changes of a room: one object is another, elsewhere or gone; or the whole is scaled, or turned about its middle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations, islice, product
from typing import ClassVar, TypeVar

import numpy as np

from render_agent.dialogue.question import Question
from render_agent.scans.boxes import rotation
from render_agent.scans.edits import Edit, Thing
from render_agent.tasks.counterfactual.change_plan import OTHER, ChangePlan
from render_agent.tasks.counterfactual.room import ChangeableRoom, NoPair
from render_agent.tasks.mentions import named_categories, subjects
from render_agent.tasks.question_types import COUNTING_TYPE

MOST_TRIED = 200
"""So many free places are tried before a question is left out."""

HUES = (0.0, 40.0, 110.0, 190.0, 225.0, 285.0)
"""Degrees: red, orange, green, cyan, blue, purple."""

Option = tuple[list[Edit], str]
"""Edits that could be made, and what they change, a clause."""

Entry = TypeVar("Entry")


def each_that_can(tries: Iterable[Callable[[], Iterable[Entry]]]) -> Iterator[Entry]:
    """Give the results of some attempts and skip those that raise NoPair; the first NoPair is raised where nothing results."""
    reason: NoPair | None = None
    any_made = False
    for attempt in tries:
        try:
            counterparts = list(attempt())
        except NoPair as error:
            reason = reason or error
            continue
        any_made = any_made or bool(counterparts)
        yield from counterparts
    if reason is not None and not any_made:
        raise reason


class ObjectPlan(ChangePlan):
    """A change of an object: of the category behind the colon, of what is named, or of one that is not (`other`)."""

    relocates: ClassVar[bool] = False
    """Whether objects go elsewhere, and distances and directions with them."""

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether this may stand behind the colon: any category, or nothing."""
        return argument is None or bool(argument.strip())

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Give the possible edits, the best first. NoPair where there is none."""
        raise NotImplementedError

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the question about the room after the first of the options that asks something clear.

        Where the change was left to the program and is of what the question names, only one that changes the
        answer will do. NoPair where there is none.
        """
        reason: NoPair | None = None
        for edits, clause in islice(self.options(question, room, seed), MOST_TRIED):
            try:
                counterpart = self.of_room(question, room, edits, clause)
            except NoPair as error:
                reason = reason or error
                continue
            if not self._seeks(question) or (
                counterpart.change is not None and counterpart.change.must
            ):
                return counterpart
            reason = reason or NoPair("nothing that fits changes the answer")
        raise reason or NoPair("there is no free place")

    def _seeks(self, question: Question) -> bool:
        """Whether only a change of the answer will do."""
        asks_where = question.type.startswith(("object_abs", "object_rel"))
        return self.relocates and self.argument is None and asks_where

    def labels(
        self, question: Question, room: ChangeableRoom, seed: int, *, named: bool
    ) -> list[str]:
        """Return the categories to be changed, the best first: as asked, else what is named, or what is not."""
        if self.argument not in (None, OTHER):
            wanted = str(self.argument).strip().lower()
            return [next((own for own, _ in room.boxes if own.lower() == wanted), wanted)]
        names = named_categories(question)
        own = list(dict.fromkeys(label for label, _ in room.boxes))
        if named and names and self.argument is None:
            first = [name for name in subjects(question) if name]
            return list(
                dict.fromkeys([*first, *(label for label in own if label.lower() in names)])
            )
        self.chance(seed, question.scene).shuffle(
            own
        )  # before any is left out: questions share rooms
        return [label for label in own if label.lower() not in names]

    def _one(self, room: ChangeableRoom, label: str, seed: int, scene: str) -> list[Thing]:
        """Return the objects of a label that can be changed, in an order of chance that all questions share."""
        loose = room.loose(label)
        self.chance(seed, scene, label).shuffle(loose)
        return loose

    def _any(
        self, question: Question, room: ChangeableRoom, seed: int, *, named: bool
    ) -> Iterator[Thing]:
        """Give objects that could be changed, label by label. NoPair where there is none, with the first reason."""
        labels = self.labels(question, room, seed, named=named)
        if not labels:
            raise NoPair("the room has no object that the question does not name")
        yield from each_that_can(
            partial(self._one, room, label, seed, question.scene) for label in labels
        )

    def _refuse_number(self, question: Question, thing: Thing) -> None:
        """Raise NoPair where a question speaks of *the* object whose number is to change."""
        if question.type != COUNTING_TYPE and thing[0].lower() in named_categories(question):
            raise NoPair("the question names the category whose number would change")


class Remove(ObjectPlan):
    """One object is taken away: of what is counted, else one that the question does not name."""

    name = "remove"
    forms = ("remove[:CATEGORY]",)

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Give the objects that can be taken away."""
        for thing in self._any(question, room, seed, named=question.type == COUNTING_TYPE):
            self._refuse_number(question, thing)
            yield [Edit("remove", *thing)], f"one {thing[0]} is removed"


class Add(ObjectPlan):
    """A copy of an object is put on free floor: of what is counted, else of one that the question does not name."""

    name = "add"
    forms = ("add[:CATEGORY]",)

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Give a free place of each of the objects that can be copied."""

        def copies(thing: Thing) -> list[Option]:
            self._refuse_number(question, thing)
            chance = self.chance(seed, question.scene, *map(str, thing))
            return [
                ([Edit("copy", *thing, shift=shift)], f"one {thing[0]} is added")
                for shift in room.places(thing, chance, copied=True)[:1]
            ]

        things = self._any(question, room, seed, named=question.type == COUNTING_TYPE)
        yield from each_that_can(partial(copies, thing) for thing in things)


class Move(ObjectPlan):
    """One object is put elsewhere: one that the question names, or with `other` one that it does not."""

    name = "move"
    forms = ("move[:CATEGORY|:other]",)
    relocates = True

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Give the free places of the objects that can be moved."""

        def moves(thing: Thing) -> list[Option]:
            chance = self.chance(seed, question.scene, *map(str, thing))
            return [
                ([Edit("transform", *thing, shift=shift)], f"one {thing[0]} is moved")
                for shift in room.places(thing, chance)
            ]

        things = self._any(question, room, seed, named=True)
        yield from each_that_can(partial(moves, thing) for thing in things)


class Swap(ObjectPlan):
    """Two objects change places: both named in the question, else one named and one not; with `other`, neither is named."""

    name = "swap"
    forms = ("swap[:other]",)
    relocates = True

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether this may stand behind the colon."""
        return argument in (None, OTHER)

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Give the pairs of objects that fit at each other's place."""
        first = list(self._any(question, room, seed, named=True))
        others = [] if self.argument else list(self._any(question, room, seed, named=False))
        fitting = 0
        for thing, other in (*combinations(first, 2), *product(first, others)):
            if thing[0] == other[0] or thing == other:
                continue
            edits = _exchange(room, thing, other)
            if len(edits) == 2:
                fitting += 1
                yield edits, f"the {thing[0]} and the {other[0]} change places"
        if not fitting:
            raise NoPair("no two of the objects fit at each other's place")


def _exchange(room: ChangeableRoom, first: Thing, second: Thing) -> list[Edit]:
    """Return the edits that bring those of two objects to the other's place that fit there."""
    try:
        supports = {first: room.support(first), second: room.support(second)}
    except NoPair:  # one of them hangs
        return []
    if {first, second} & set(supports.values()):
        return []
    edits = []
    for thing, place in ((first, second), (second, first)):
        box, there = room.boxes[thing], room.boxes[place]
        x, y, _ = map(float, there.centre - box.centre)
        edit = Edit("transform", *thing, shift=(x, y, room.bottom(place) - room.bottom(thing)))
        if room.fits(edit.moved_box(box), {first, second}, supports[place]):
            edits.append(edit)
    return edits


class Recolour(ObjectPlan):
    """Objects are painted in one hue: what the question names, else the whole room; no question asks for colours."""

    name = "recolour"
    forms = ("recolour[:CATEGORY]",)

    def options(self, question: Question, room: ChangeableRoom, seed: int) -> Iterator[Option]:
        """Give the painting of all objects of a category, or of the room."""
        names = self.labels(question, room, seed, named=True)
        named = self.argument is not None
        hue = self.chance(seed, question.scene).choice(HUES)
        if named_categories(question) or named:
            for label in names:
                things = [thing for thing in room.boxes if thing[0] == label]
                if things and room.things.issuperset(things):
                    yield [Edit("recolour", *thing, degrees=hue) for thing in things], f"every {label} is painted"  # fmt: skip
        if not named:
            yield [Edit("recolour", degrees=hue)], "the whole room is painted"
        else:
            raise NoPair(f"the room has no {self.argument} that can be painted")


SMALLEST, LARGEST = 0.5, 2.0
"""A room that is scaled more is none that one could stand in, or see to the end of."""


class WholeRoomPlan(ChangePlan):
    """A change of every point of the room alike, about the middle of its floor."""

    def edit(self, room: ChangeableRoom, degrees: float, factor: float) -> Edit:
        """Return a turn, degrees counter-clockwise, with a scale. NoPair where the scene cannot be so."""
        scene = room.scene
        if scene.gaussians is not None:
            raise NoPair("its scan is a splat")
        middle = np.array([*scene.bounds[:, :2].mean(0), scene.floor]) + scene.origin
        shift = middle - factor * rotation(degrees) @ middle
        return Edit("transform", degrees=degrees, factor=factor, shift=(float(shift[0]), float(shift[1]), float(shift[2])))  # fmt: skip


class Scale(WholeRoomPlan):
    """The room is scaled: what is measured scales with it; counts, directions and what is nearest stay."""

    name = "scale"
    forms = ("scale:X",)

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether it is a factor from 0.5 to 2, and not 1."""
        try:
            factor = float(argument or "")
        except ValueError:
            return False
        return SMALLEST <= factor <= LARGEST and factor != 1

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the question about the scaled room."""
        factor = float(self.argument or "")
        clause = f"the room is {factor:g} times as large"
        return self.of_room(question, room, [self.edit(room, 0.0, factor)], clause)


class Rotate(WholeRoomPlan):
    """The room is turned about its middle, the first view with it; no answer changes."""

    name = "rotate"
    forms = ("rotate[:DEGREES]",)

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether it is an angle, or nothing for a quarter turn."""
        try:
            degrees = float(argument or 90)
        except ValueError:
            return False
        return argument != "" and math.isfinite(degrees) and degrees % 360 != 0

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the question about the turned room."""
        degrees = float(self.argument or 90)
        clause = f"the room is turned by {degrees:g} degrees"
        return self.of_room(question, room, [self.edit(room, degrees, 1.0)], clause)
