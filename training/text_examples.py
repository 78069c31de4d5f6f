"""Text-only arithmetic: from given positions to the answer, in the wording of a final reply.

    python -m training.text_examples OUT ROOMS...

ROOMS are folders written by `render-agent make-rooms`. OUT gets `dialogues.npz` without images. Every question is asked
about its room as it is and in VARIANTS - 1 random rotations. A list of object positions precedes it, so that the model
learns to look them up. Drills (`arithmetic_examples.py`) about every room are added.
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
from render_agent_lab.expert.derive import (
    Knowledge,
    format_places,
    omniscient_reply,
    question_categories,
)
from render_agent_lab.expert.homes import load_knowledge
from training import arithmetic_examples as drills
from training.dialogue_file import DIALOGUES_FILE, Dialogues, EncodedDialogue, concatenate
from training.encode import CHUNK, Encoder
from training.wording import small_wording

VIEWS = "text"  # value of `Dialogues.views` for text-only examples

MAX_OTHERS = 6  # maximum categories listed besides those in the question

VARIANTS = 4  # copies of each question, each with its room rotated differently

DRILL_ROUNDS = 30  # rounds of drills per room, each with the room rotated differently


class TextExample(NamedTuple):
    """A question and its reply."""

    question: Question
    prefix: str  # beginning of the reply, which is not learned
    completion: str  # rest of the reply, which is learned
    history: tuple[Message, ...] = ()


NOWHERE = Camera((0.0, 0.0, 0.0), 0.0, 0.0, 60.0)  # camera of a run without views


def blind_prompt(turns: int = 9) -> Prompt:
    """Return the prompt of a run without views and with `turns` turns."""
    return Prompt(turns, 75.0, (), wording=small_wording())


def blind_messages(question: Question, turns: int = 9) -> list[Message]:
    """Return the first messages about a question in a run without views."""
    return blind_prompt(turns).opening(question, (), NOWHERE)


def text_examples(examples: Iterable[TextExample], processor: Any) -> list[EncodedDialogue]:
    """Encode examples as dialogues without images in which only completions are learned."""
    encoder = Encoder(processor)
    remaining = iter(examples)
    encoded = []
    while chunk := list(islice(remaining, CHUNK)):
        dialogues = [
            [
                *blind_messages(example.question),
                *example.history,
                assistant(example.prefix + example.completion),
            ]
            for example in chunk
        ]
        arrays = encoder.encode(dialogues, [example.prefix for example in chunk])
        for example, (ids, learned) in zip(chunk, arrays, strict=True):
            question = example.question
            encoded.append(
                EncodedDialogue(ids, learned, (), question.id, question.scene, question.type, VIEWS)
            )
    return encoded


def rooms_examples(folder: Path, variants: int = VARIANTS) -> list[TextExample]:
    """Return examples for every question about rooms with known boxes and ground truth."""
    questions = load_rooms(folder)
    knowledge_by_scene = load_knowledge(questions)
    examples = []
    for variant in range(variants):
        for question in questions:
            if question.scene in knowledge_by_scene and question.ground_truth is not None:
                knowledge = knowledge_by_scene[question.scene]
                rng = random.Random(f"{folder.name} {question.scene} {question.id} {variant}")
                if variant:
                    knowledge = rotate_room(knowledge, rng.uniform(0, 2 * math.pi))
                examples.append(_located(question, knowledge, rng))
    return examples


def _located(question: Question, knowledge: Knowledge, rng: random.Random) -> TextExample:
    """Return an example with object positions before the question and the whole reply as completion.

    Room sizes do not follow from positions, so those questions keep the expert's prefix.
    """
    prefix, completion = omniscient_reply(question, knowledge)
    names = question_categories(question)
    if not names:
        return TextExample(question, prefix, completion)
    others = sorted(knowledge.boxes.keys() - set(names))
    listed_names = [*dict.fromkeys(names), *rng.sample(others, min(MAX_OTHERS, len(others)))]
    rng.shuffle(listed_names)
    positions = knowledge.spots()
    listing = "; ".join(f"{name} {format_places(positions.get(name, ()))}" for name in listed_names)
    listed_question = replace(question, text=f"What is where: {listing}.\n\n{question.text}")
    return TextExample(listed_question, "", prefix + completion)


def drill_examples(folder: Path, rounds: int = DRILL_ROUNDS) -> Iterator[TextExample]:
    """Yield drills about rooms with known boxes."""
    for scene, knowledge in load_knowledge(load_rooms(folder)).items():
        for number in range(rounds):
            rng = random.Random(f"{folder.name} {scene} drill {number}")
            rotated = rotate_room(knowledge, rng.uniform(0, 2 * math.pi))
            for kind, drill in enumerate(drills.drills(rotated, rng)):
                name = f"{scene} {number} {kind}"
                question = Question(
                    name, "rooms", "rooms", scene, drills.TYPE, drill.question, "text"
                )
                yield TextExample(question, drill.prefix, drill.completion)


def rotate_room(knowledge: Knowledge, angle: float) -> Knowledge:
    """Rotate the knowledge of a room by an angle in radians, shifted so that no position is negative.

    The answers do not change. Room extents stay along the walls.
    """
    cos, sin = math.cos(angle), math.sin(angle)
    rotation = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    centres = np.array(
        [box.centre for boxes_of_name in knowledge.boxes.values() for box in boxes_of_name]
    )
    shift = -(centres @ rotation.T).min(axis=0) * (1, 1, 0)
    boxes = {
        name: [
            OrientedBox(rotation @ box.centre + shift, box.size, box.axes @ rotation.T)
            for box in boxes_of_name
        ]
        for name, boxes_of_name in knowledge.boxes.items()
    }
    return replace(knowledge, boxes=boxes)


def encode_rooms(folder: Path, rooms: Sequence[Path], processor: Any) -> Dialogues:
    """Write the examples of folders of rooms to a folder of training data, and return them."""
    examples = (
        chain(rooms_examples(folder_of_rooms), drill_examples(folder_of_rooms))
        for folder_of_rooms in rooms
    )
    return save_examples(folder, chain.from_iterable(examples), processor)


def save_examples(folder: Path, examples: Iterable[TextExample], processor: Any) -> Dialogues:
    """Write examples to a folder of training data, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    dialogues = concatenate(None, text_examples(examples, processor))
    dialogues.save(folder / DIALOGUES_FILE)
    return dialogues


def main(arguments: Sequence[str]) -> None:
    """Encode the rooms named on the command line and print the amount of data."""
    from training.processor import small_processor
    from training.tokenizer import small_tokenizer

    folder, *rooms = map(Path, arguments)
    dialogues = encode_rooms(folder, rooms, small_processor(small_tokenizer()))
    print(
        f"{len(dialogues)} examples, {len(dialogues.ids)} tokens ({int(dialogues.learned.sum())} learned)"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
