"""The witness: answers from the truth once the views have shown what a question names, else guesses.

It is no model and no bound for one: it tests views. Whoever shows it more of what questions are about
gets more right answers from it, and pictures that show nothing get it no further than chance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from render_agent.camera import Camera
from render_agent.config import RunConfig
from render_agent.engines.seam import Request
from render_agent.engines.unseeing import Explorer, RandomChoice, random_move
from render_agent.facts import Facts, known_facts
from render_agent.named import named_categories
from render_agent.oracle import true_answer
from render_agent.render.choose import make_renderer
from render_agent.render.looks import Room, Rooms
from render_agent.render.seam import Renderer
from render_agent.scene.cache import SceneCache
from render_agent.shown import EVERY, SIZE, first_shown, was_shown
from render_agent.state import Question, View
from render_agent.stress.scenes import scenes_of

SHOWING = ("real", "mirrored")
"""The --pictures that show the scene which a question is about."""

WORDS = {
    True: "I have seen what this is about.",
    False: "I have not seen all that this is about: I guess.",
    None: "Nobody can tell what had to be seen for this: I guess.",
}
"""What it says, by what `was_shown` tells."""

NO_BOX_TELLS = "I have seen what this is about, but no box tells the answer: I guess."
"""What it says of a route, say, whose places it has seen."""


class Told(NamedTuple):
    """What views have told of a question.

    shown: whether all that it is about was seen well, None where nobody can tell. answer: the true one
    where it was and the boxes tell it. counted: how many boxes were seen of those to be counted.
    """

    shown: bool | None = None
    answer: str | None = None
    counted: int = 0


UNTOLD = Told()
"""Of a scene of which nothing is known, and where nothing is shown."""


class Witness:
    """Walks as `explorer` does until all that a question names was seen well, then answers.

    eyes: None where nothing is shown. walks: whether it chooses its views. wanders: whether it walks as
    `wanderer` does instead, to the last turn.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        seed: int,
        eyes: Eyes | None,
        *,
        walks: bool,
        wanders: bool = False,
    ) -> None:
        self.questions = {question.id: question for question in questions}
        self.eyes = eyes
        self.walks = walks
        self.wanders = wanders
        self._explorer = Explorer(questions, seed)
        self._chance = RandomChoice(questions, seed)

    def reply(self, request: Request) -> str:
        """Return the next step of the walk, or the answer: the true one, or a guess."""
        return self.samples(request)[0]

    def samples(self, request: Request) -> list[str]:
        """Return as many replies: the same answer or step, but for one who wanders and goes many ways."""
        question = self.questions[request.question_id]
        told = UNTOLD if self.eyes is None else self.eyes.look(question, request.views)
        if told.answer is None and not request.last and self.walks:
            if self.wanders:
                return [random_move(request.seed, number) for number in range(request.samples)]
            steps = self._explorer.walk(question.id)
            if request.turn < len(steps):
                return [json.dumps(steps[request.turn])] * request.samples
        return [self._answer(question, told)] * request.samples

    def _answer(self, question: Question, told: Told) -> str:
        if told.answer is not None:
            return _answer(WORDS[True], told.answer)
        reasoning = NO_BOX_TELLS if told.shown else WORDS[told.shown]
        return _answer(reasoning, self._chance.guess(question.id, told.counted))

    def close(self) -> None:
        """Give back what it looks with."""
        if self.eyes is not None:
            self.eyes.close()


class Eyes:
    """Tells what the views of a dialogue have shown; owned by the thread that owns the engine.

    scenes: those of the run. facts: what is known of them, as files have it. size: width and height of
    the views in pixels.
    """

    def __init__(
        self, scenes: SceneCache, facts: Mapping[str, Facts], size: tuple[int, int]
    ) -> None:
        self.scenes = scenes
        self.facts = facts
        self.rooms = Rooms(size)

    @cached_property
    def renderer(self) -> Renderer:
        """What draws the frames that are looked at."""
        return make_renderer()

    def look(self, question: Question, views: Sequence[View]) -> Told:
        """Return what the views have shown of what the question is about; `was_shown` has the rule."""
        if question.scene not in self.facts:
            return UNTOLD
        room = self._room(question)
        fresh = list(dict.fromkeys(view for view in views if isinstance(view.camera, Camera)))
        names = named_categories(question)
        which = [number for number, label in enumerate(room.labels) if label in names]
        seen: set[int] = set()
        for view in fresh:
            seen |= room.seen(view, which, self.renderer)
        first = first_shown(
            question,
            [room.labels[number] for number in which],
            {place: 0 for place, number in enumerate(which) if number in seen},
        )
        coverage = room.coverage(fresh, self.renderer) if question.type == SIZE else None
        shown = was_shown(question, first, coverage)
        answer = true_answer(question, room.facts) if shown else None
        return Told(shown, answer, len(seen) if question.type == EVERY else 0)

    def close(self) -> None:
        """Give the renderer back."""
        if "renderer" in self.__dict__:
            self.renderer.close()

    def _room(self, question: Question) -> Room:
        """Return what is known of the question's scene, in the scene's frame."""
        scene, space = partial(self.scenes.get, question), partial(self.scenes.space, question)
        return self.rooms.room(question.scene, scene, space, self.facts[question.scene])


def witness(
    questions: Sequence[Question],
    seed: int = 0,
    config: RunConfig | None = None,
    *,
    wanders: bool = False,
) -> Witness:
    """Return the policy that answers rightly once the views have shown what a question names.

    config: the options of the run; without them it sees nothing. wanders: whether it walks at random.
    Errors: QuestionsError where a file of truths is in no known format.
    """
    if config is None:
        return Witness(questions, seed, None, walks=True, wanders=wanders)
    eyes = None
    if not config.blind and config.pictures in SHOWING:
        facts = known_facts(questions, config.annotations)
        eyes = Eyes(scenes_of(config, questions), facts, config.image_size)
    return Witness(questions, seed, eyes, walks=config.views == "free", wanders=wanders)


def _answer(reasoning: str, answer: str) -> str:
    return json.dumps({"reasoning": reasoning, "answer": answer, "done": True})
