"""Text-only choices: the prompt includes the reasoning of a reply, and only the answer is learned.

    python -m training.choices OUT KIND ROOMS...

ROOMS are folders written by `render-agent make-rooms`. OUT gets `dialogues.npz` without images. The answer is always the
words of an option. KIND `routes` and `names` teach which option to choose if the derived answer is not an option; in some
examples an earlier reply was already rejected for that reason. Routes have wrong positions, so that the derived turns are
not an option, or unknown positions, or no reasoning at all; sides and nearest objects have a name that is not an option.
KIND `nearest` teaches to choose the smallest of given distances.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from render_agent.dialogue.answer import canonical_answer
from render_agent.dialogue.chat import assistant
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Malformed
from render_agent.scans.boxes import OrientedBox
from render_agent.tasks.box_answers import DIRECTION_NAMES
from render_agent.tasks.question_types import base_question_type
from render_agent.tasks.rooms import load_rooms
from render_agent_lab.expert.derive import (
    Knowledge,
    final_reply,
    make_answer_reply,
    make_reasoning,
    question_categories,
)
from render_agent_lab.expert.homes import load_knowledge
from training.text_examples import NOWHERE, TextExample, blind_prompt, rotate_room, save_examples
from training.wording import small_wording

ROUTE_VARIANTS = 16  # variants of each route, with different wrong positions and rotations

ANSWER = '", "answer": "'  # text between reasoning and answer

DISPLACEMENT_METRES = 1.5  # metres, standard deviation of displacements along x and y

# Names of sides in any question type.
SIDES = (
    "left",
    "right",
    "back",
    *(f"{end}-{side}" for end in ("front", "back") for side in ("left", "right")),
)

NEAREST = "object_rel_distance"

NEAREST_VARIANTS = 16  # variants of each nearest-object question, with different positions

MAX_TRIES = 8  # attempts to find a displacement that leads to an invalid option


def routes(folder: Path) -> Iterator[TextExample]:
    """Yield the route examples of rooms with known boxes and ground truth."""
    questions = load_rooms(folder)
    knowledge_by_scene = load_knowledge(questions)
    for question in questions:
        if base_question_type(question) != "route_planning" or question.ground_truth is None:
            continue
        if (knowledge := knowledge_by_scene.get(question.scene)) is None:
            continue
        rng = random.Random(f"{folder.name} {question.scene} {question.id} choices")
        yield _answer_only(question, make_answer_reply("", question, question.ground_truth))
        partial = _partial_knowledge(knowledge, question, rng)
        yield _answer_only(question, "".join(final_reply(question, partial, question.ground_truth)))
        for number in range(ROUTE_VARIANTS):
            mistaken = _mistaken_route(
                question, rotate_room(knowledge, rng.uniform(0, 2 * math.pi)), rng
            )
            if mistaken is not None:
                yield _rejected(mistaken) if number % 2 else mistaken


def names(folder: Path) -> Iterator[TextExample]:
    """Yield the examples about sides and nearest objects of rooms with known boxes and ground truth.

    The derivation ends with the name of another side, or with another object of the room.
    """
    questions = load_rooms(folder)
    knowledge_by_scene = load_knowledge(questions)
    for question in questions:
        knowledge = knowledge_by_scene.get(question.scene)
        if (
            question.type not in (*DIRECTION_NAMES, NEAREST)
            or question.ground_truth is None
            or knowledge is None
        ):
            continue
        others = [
            name
            for name in (*SIDES, *sorted(knowledge.boxes))
            if (name in SIDES) == (question.type in DIRECTION_NAMES)
            and canonical_answer(name, question.answer_form, question.options) is None
        ]
        for number in range(2 if others else 0):
            rng = random.Random(f"{folder.name} {question.scene} {question.id} name {number}")
            rotated = rotate_room(knowledge, rng.uniform(0, 2 * math.pi))
            correct = _answer_only(
                question, "".join(final_reply(question, rotated, question.ground_truth))
            )
            derivation, colon, _ = correct.prefix.rpartition(": ")
            if "?" in correct.prefix:
                continue
            mistaken = correct._replace(prefix=f"{derivation}{colon}{rng.choice(others)}")
            yield _rejected(mistaken, ": ") if number else mistaken


def nearest(folder: Path) -> Iterator[TextExample]:
    """Yield the smallest-distance examples of rooms with known boxes, with displaced objects."""
    questions = load_rooms(folder)
    knowledge_by_scene = load_knowledge(questions)
    for question in questions:
        knowledge, categories = (
            knowledge_by_scene.get(question.scene),
            question_categories(question),
        )
        if (
            question.type != NEAREST
            or knowledge is None
            or not knowledge.boxes.keys() >= {*categories}
        ):
            continue
        for number in range(NEAREST_VARIANTS):
            rng = random.Random(f"{folder.name} {question.scene} {question.id} near {number}")
            rotated = rotate_room(knowledge, rng.uniform(0, 2 * math.pi))
            reasoning = "".join(
                make_reasoning(question, _displace(rotated, categories, rng), final=True)
            )
            stated_distances, _, smallest = reasoning.rpartition(": ")
            reply = make_answer_reply(reasoning, question, smallest)
            cut = len(json.dumps({"reasoning": stated_distances})) - len('"}')
            yield TextExample(question, reply[:cut], reply[cut:])


def _partial_knowledge(knowledge: Knowledge, question: Question, rng: random.Random) -> Knowledge:
    """Return the knowledge without one or more of the objects in the question."""
    names = question_categories(question)
    hidden_names = set(rng.sample(names, rng.randint(1, len(names)))) if names else set()
    boxes = {
        name: boxes_of_name
        for name, boxes_of_name in knowledge.boxes.items()
        if name not in hidden_names
    }
    return replace(knowledge, boxes=boxes)


def _mistaken_route(
    question: Question, knowledge: Knowledge, rng: random.Random
) -> TextExample | None:
    """Return a route whose turns follow from wrong positions and match no option, None if none was found."""
    for _ in range(MAX_TRIES):
        wrong_knowledge = _displace(knowledge, question_categories(question), rng)
        derived = make_reasoning(question, wrong_knowledge, final=True).rest.rpartition(". ")[2]
        if derived and canonical_answer(derived, question.answer_form, question.options) is None:
            return _answer_only(
                question,
                "".join(final_reply(question, wrong_knowledge, question.ground_truth or "")),
            )
    return None


def _rejected(example: TextExample, separator: str = ". ") -> TextExample:
    """Return an example in which the derived answer was given earlier and rejected as not an option.

    `separator` is the text that precedes the derived answer in the reasoning.
    """
    question = example.question
    reasoning = json.loads(example.prefix + '"}')["reasoning"]
    reply = json.dumps(
        {"reasoning": reasoning, "answer": reasoning.rpartition(separator)[2], "done": True}
    )
    wording, prompt = small_wording(), blind_prompt()
    malformed = prompt.parse_reply(reply, question)
    assert isinstance(malformed, Malformed), "the answer must not be an option"
    feedback = prompt.following(
        1, wording("feedback.unreadable", reason=malformed.reason), (), NOWHERE
    )
    return example._replace(history=(assistant(reply), *feedback))


def _displace(knowledge: Knowledge, names: Sequence[str], rng: random.Random) -> Knowledge:
    """Return the knowledge with one or two of the objects displaced by about DISPLACEMENT_METRES metres."""
    boxes = dict(knowledge.boxes)
    for name in rng.sample(names, rng.randint(1, 2)):
        offset = np.array(
            [rng.gauss(0, DISPLACEMENT_METRES), rng.gauss(0, DISPLACEMENT_METRES), 0.0]
        )
        boxes[name] = [OrientedBox(box.centre + offset, box.size, box.axes) for box in boxes[name]]
    return replace(knowledge, boxes=boxes)


def _answer_only(question: Question, reply: str) -> TextExample:
    """Return an example in which only the answer is learned."""
    prefix, separator, answer = reply.partition(ANSWER)
    return TextExample(question, prefix, separator + answer)


MAKERS = {"routes": routes, "names": names, "nearest": nearest}


def main(arguments: Sequence[str]) -> None:
    """Encode the rooms named on the command line and print the amount of data."""
    from training.processor import small_processor
    from training.tokenizer import small_tokenizer

    folder, kind, *rooms = arguments
    examples = chain.from_iterable(MAKERS[kind](Path(folder_of_rooms)) for folder_of_rooms in rooms)
    dialogues = save_examples(Path(folder), examples, small_processor(small_tokenizer()))
    print(
        f"{len(dialogues)} examples, {len(dialogues.ids)} tokens ({int(dialogues.learned.sum())} learned)"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
