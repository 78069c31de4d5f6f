"""Text-only arithmetic: the prompt of a run without views, positions before the question, the reply learned."""

import json
import math
import re

import numpy as np
import pytest
from factories.derivations import answer_of
from factories.runs import make_config

from render_agent.dialogue.answer import options_by_letter
from render_agent.runs.build import build
from render_agent.scans.boxes import distance
from render_agent.tasks.rooms import BUNDLED, load_rooms
from render_agent_lab.expert.derive import format_rooms, question_categories
from render_agent_lab.expert.homes import load_knowledge
from training import arithmetic_examples as drills
from training.dialogue_file import DIALOGUES_FILE, load_dialogues
from training.processor import small_processor
from training.text_examples import (
    MAX_OTHERS,
    VARIANTS,
    VIEWS,
    blind_messages,
    encode_rooms,
    rooms_examples,
    rotate_room,
)
from training.tokenizer import small_tokenizer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    """Return a folder with the bundled rooms and every fifth question about them."""
    folder = tmp_path_factory.mktemp("rooms")
    for file in BUNDLED.glob("room*"):
        (folder / file.name).symlink_to(file.resolve())
    lines = (BUNDLED / "questions.jsonl").read_text().splitlines(keepends=True)
    (folder / "questions.jsonl").write_text("".join(lines[::5]))
    return folder


@pytest.fixture(scope="module")
def dialogues(rooms, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    encode_rooms(folder, [rooms], small_processor(tokenizer))
    return load_dialogues(folder / DIALOGUES_FILE)


@pytest.fixture(scope="module")
def examples():
    return rooms_examples(BUNDLED)


def reasoning(example):
    return json.loads(example.prefix + example.completion)["reasoning"]


def test_every_question_becomes_one_example_per_rotation(dialogues, rooms, tokenizer):
    questions = load_rooms(rooms) * VARIANTS
    examples = rooms_examples(rooms)
    assert len(examples) == len(questions) > 25 * VARIANTS
    types = dialogues.types.tolist()
    assert types[: len(questions)] == [question.type for question in questions]
    assert set(types[len(questions) :]) == {drills.TYPE}
    assert set(dialogues.views) == {VIEWS}
    assert not len(dialogues.pictures)
    for number, (question, example) in enumerate(zip(questions, examples, strict=True)):
        start, end = dialogues.offsets[number : number + 2]
        ids, learned = dialogues.ids[start:end], dialogues.learned[start:end]
        assert tokenizer.decode(ids[learned]) == f"{example.completion}<|im_end|>"
        before, _, reply = tokenizer.decode(ids).partition("<|im_start|>assistant\n")
        assert question.text in before
        parsed = json.loads(reply.removesuffix("<|im_end|>\n"))
        assert parsed["done"] is True
        assert parsed["answer"] == options_by_letter(question.options).get(
            question.ground_truth, question.ground_truth
        )


def test_derivations_in_rotated_rooms_lead_to_the_answer(examples):
    """Turns, nearest objects and counts do not depend on the angle; only the positions do."""
    num_derived = 0
    for example in examples:
        question = example.question
        if question.type.startswith(("object_rel", "route", "object_counting")):
            derivation = reasoning(example).partition(". ")[2]
            truth = options_by_letter(question.options).get(
                question.ground_truth, question.ground_truth
            )
            assert answer_of(question, derivation) == truth
            num_derived += 1
    assert num_derived > 100 * VARIANTS


def test_named_objects_are_listed_and_stated_equally(examples):
    num_reordered = 0
    for example in examples:
        names = question_categories(example.question)
        if example.question.type == "room_size_estimation":
            assert not example.question.text.startswith("What is where")
            assert re.search(r"room \d", example.prefix)
            continue
        assert example.prefix == ""
        listed = re.match(r"What is where: (.+)\.\n\n", example.question.text)[1].split("; ")
        stated = reasoning(example).partition(". ")[0].split("; ")
        assert set(stated) <= set(listed)
        assert len(set(stated)) == len(set(names)) < len(listed) <= len(set(names)) + MAX_OTHERS
        assert len(set(listed)) == len(listed)
        num_reordered += listed[: len(stated)] != stated
    assert num_reordered > len(examples) / 2


def test_rotated_positions_are_non_negative_and_differ(examples):
    count = len(examples) // VARIANTS
    for example in examples[count:]:
        assert not re.search(r"-\d", example.question.text)
    with_positions = [
        number for number in range(count) if re.search(r"\d\.\d \d", reasoning(examples[number]))
    ]
    assert len(with_positions) > 100
    for number in with_positions:
        assert len({reasoning(variant) for variant in examples[number::count]}) > VARIANTS / 2


@pytest.mark.parametrize("angle", [0.3, math.pi / 2, 4.0])
def test_rotation_preserves_everything_but_positions(angle):
    knowledge = next(iter(load_knowledge(load_rooms(BUNDLED)).values()))
    rotated = rotate_room(knowledge, angle)
    assert rotated.extents == knowledge.extents
    assert format_rooms(rotated.extents) == format_rooms(knowledge.extents) != "room ?"
    boxes, rotated_boxes = (
        [box for group in room.boxes.values() for box in group] for room in (knowledge, rotated)
    )
    assert rotated.boxes.keys() == knowledge.boxes.keys()
    centres, rotated_centres = (
        np.array([box.centre for box in group]) for group in (boxes, rotated_boxes)
    )
    np.testing.assert_allclose(rotated_centres[:, :2].min(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(rotated_centres[:, 2], centres[:, 2], atol=1e-9)
    offsets = (
        (centres - centres[0])[:, :2] @ (1, 1j),
        (rotated_centres - rotated_centres[0])[:, :2] @ (1, 1j),
    )
    np.testing.assert_allclose(offsets[1], offsets[0] * np.exp(1j * angle), atol=1e-9)
    for index in range(1, len(boxes)):
        before = distance(boxes[0], boxes[index])
        assert distance(rotated_boxes[0], rotated_boxes[index]) == pytest.approx(before, abs=1e-6)
        assert np.linalg.det(rotated_boxes[index].axes) == pytest.approx(1)


def test_prompt_matches_a_run_without_views(tmp_path):
    (question, *_) = load_rooms(BUNDLED)
    config = make_config(
        tmp_path, BUNDLED / "questions.jsonl", views="none", engine="transformers", model="small"
    )
    messages = blind_messages(question, config.max_turns)
    assert messages == build(config).prompt.opening(question, (), None)
