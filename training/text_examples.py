"""Arithmetic on text alone: from places that are told to the answer, in the words of the last reply.

    python -m training.text_examples OUT ROOMS...

ROOMS are folders that `render-agent make-rooms` wrote. OUT gets `dialogues.npz` without pictures. Every
question is asked of its room as it is and VARIANTS - 1 times of the room turned by some angle; before it
stands what is where, so that places are looked up and not only computed with. Drills (`arithmetic_examples.py`) about
every room are added.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from render_agent.dialogue.chat import Message, assistant
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.question import Question
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Camera
from render_agent.tasks.rooms import load_rooms
from render_agent_lab.expert.derive import Knowledge, known_reply, places_of, things
from render_agent_lab.expert.homes import known_scenes
from training import arithmetic_examples as drills
from training.dialogue_file import DIALOGUES, Dialogues, Encoded, gathered
from training.encode import CHUNK, Encoder
from training.wording import small_wording

VIEWS = "text"
"""Stands in `Dialogues.views` for what no run has shown."""

OTHERS = 6
"""Categories at the most that are told beside those that a question is about."""

VARIANTS = 4
"""How often a question is asked, each time of its room turned otherwise."""

DRILLS = 30
"""Rounds of drills about every room, each time turned otherwise."""


class TextExample(NamedTuple):
    """A question as it is asked, and its reply in two parts: what is given, and what is learned.

    before: messages between question and reply.
    """

    question: Question
    given: str
    learned: str
    before: tuple[Message, ...] = ()


NOWHERE = Camera((0.0, 0.0, 0.0), 0.0, 0.0, 60.0)
"""Where who is shown nothing stands."""


def blind_prompt(turns: int = 9) -> Prompt:
    """Return the words of a run without views of so many turns."""
    return Prompt(turns, 75.0, (), wording=small_wording())


def blind_messages(question: Question, turns: int = 9) -> list[Message]:
    """Return the first messages about a question in a run without views of so many turns."""
    return blind_prompt(turns).opening(question, (), NOWHERE)


def text_examples(examples: Iterable[TextExample], processor: Any) -> list[Encoded]:
    """Return examples as dialogues without pictures, of which only the second parts are learned.

    ValueError where a reply's parts joined do not stand in a dialogue as they are.
    """
    encoder = Encoder(processor)
    rest = iter(examples)
    encoded = []
    while chunk := list(islice(rest, CHUNK)):
        dialogues = [
            [*blind_messages(one.question), *one.before, assistant(one.given + one.learned)]
            for one in chunk
        ]
        arrays = encoder.encode(dialogues, [one.given for one in chunk])
        for one, (ids, learned) in zip(chunk, arrays, strict=True):
            asked = one.question
            encoded.append(Encoded(ids, learned, (), asked.id, asked.scene, asked.type, VIEWS))
    return encoded


def rooms_examples(folder: Path, variants: int = VARIANTS) -> list[TextExample]:
    """Return examples of every question about rooms whose boxes and truth are known."""
    questions = load_rooms(folder)
    known = known_scenes(questions)
    examples = []
    for variant in range(variants):
        for question in questions:
            if question.scene in known and question.truth is not None:
                seen = known[question.scene]
                chance = random.Random(f"{folder.name} {question.scene} {question.id} {variant}")
                if variant:
                    seen = turned(seen, chance.uniform(0, 2 * math.pi))
                examples.append(_told(question, seen, chance))
    return examples


def _told(question: Question, known: Knowledge, chance: random.Random) -> TextExample:
    """Return an example in which the question comes behind the places, the reply learned whole.

    How large rooms are follows from no places: for questions after that it is given.
    """
    given, learned = known_reply(question, known)
    names = things(question)
    if not names:
        return TextExample(question, given, learned)
    others = sorted(known.boxes.keys() - set(names))
    told = [*dict.fromkeys(names), *chance.sample(others, min(OTHERS, len(others)))]
    chance.shuffle(told)
    spots = known.spots()
    where = "; ".join(f"{name} {places_of(spots.get(name, ()))}" for name in told)
    asked = replace(question, text=f"What is where: {where}.\n\n{question.text}")
    return TextExample(asked, "", given + learned)


def drill_examples(folder: Path, rounds: int = DRILLS) -> Iterator[TextExample]:
    """Give drills about rooms whose boxes are known."""
    for scene, seen in known_scenes(load_rooms(folder)).items():
        for number in range(rounds):
            chance = random.Random(f"{folder.name} {scene} drill {number}")
            way = turned(seen, chance.uniform(0, 2 * math.pi))
            for kind, drill in enumerate(drills.drills(way, chance)):
                name = f"{scene} {number} {kind}"
                question = Question(name, "rooms", "rooms", scene, drills.TYPE, drill.asked, "text")
                yield TextExample(question, drill.given, drill.learned)


def turned(known: Knowledge, angle: float) -> Knowledge:
    """Return what is known of a room turned by an angle in radians, moved to where no place is negative.

    The answers to all questions stay what they are; so do the rooms' extents, along their own walls.
    """
    cos, sin = math.cos(angle), math.sin(angle)
    turn = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    centres = np.array([box.centre for some in known.boxes.values() for box in some])
    shift = -(centres @ turn.T).min(axis=0) * (1, 1, 0)
    boxes = {
        name: [OrientedBox(turn @ box.centre + shift, box.size, box.axes @ turn.T) for box in some]
        for name, some in known.boxes.items()
    }
    return replace(known, boxes=boxes)


def encode_rooms(folder: Path, rooms: Sequence[Path], processor: Any) -> Dialogues:
    """Write the examples of folders of rooms into a folder of training data, and return them."""
    both = (chain(rooms_examples(one), drill_examples(one)) for one in rooms)
    return save_examples(folder, chain.from_iterable(both), processor)


def save_examples(folder: Path, examples: Iterable[TextExample], processor: Any) -> Dialogues:
    """Write examples into a folder of training data, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    dialogues = gathered(None, text_examples(examples, processor))
    dialogues.save(folder / DIALOGUES)
    return dialogues


def main(arguments: Sequence[str]) -> None:
    """Encode the rooms named on the command line, and say how much there is."""
    from training.processor import small_processor
    from training.tokenizer import small_tokenizer

    folder, *rooms = map(Path, arguments)
    made = encode_rooms(folder, rooms, small_processor(small_tokenizer()))
    print(f"{len(made)} examples, {len(made.ids)} tokens ({int(made.learned.sum())} learned)")


if __name__ == "__main__":
    main(sys.argv[1:])
