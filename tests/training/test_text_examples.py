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
def encoded(rooms, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    encode_rooms(folder, [rooms], small_processor(tokenizer))
    return load_dialogues(folder / DIALOGUES_FILE)


@pytest.fixture(scope="module")
def examples():
    return rooms_examples(BUNDLED)


def reasoning(example):
    return json.loads(example.given + example.learned)["reasoning"]


def test_every_question_becomes_one_example_per_rotation(encoded, rooms, tokenizer):
    questions = load_rooms(rooms) * VARIANTS
    examples = rooms_examples(rooms)
    assert len(examples) == len(questions) > 25 * VARIANTS
    types = encoded.types.tolist()
    assert types[: len(questions)] == [question.type for question in questions]
    assert set(types[len(questions) :]) == {drills.TYPE}
    assert set(encoded.views) == {VIEWS}
    assert not len(encoded.pictures)
    for number, (question, example) in enumerate(zip(questions, examples, strict=True)):
        start, end = encoded.offsets[number : number + 2]
        ids, learned = encoded.ids[start:end], encoded.learned[start:end]
        assert tokenizer.decode(ids[learned]) == f"{example.learned}<|im_end|>"
        before, _, reply = tokenizer.decode(ids).partition("<|im_start|>assistant\n")
        assert question.text in before
        said = json.loads(reply.removesuffix("<|im_end|>\n"))
        assert said["done"] is True
        assert said["answer"] == options_by_letter(question.options).get(
            question.ground_truth, question.ground_truth
        )


def test_derivations_in_rotated_rooms_lead_to_the_answer(examples):
    """Turns, nearest objects and counts do not depend on the angle; only the positions do."""
    num_derived = 0
    for example in examples:
        question = example.question
        if question.type.startswith(("object_rel", "route", "object_counting")):
            derived = reasoning(example).partition(". ")[2]
            truth = options_by_letter(question.options).get(
                question.ground_truth, question.ground_truth
            )
            assert answer_of(question, derived) == truth
            num_derived += 1
    assert num_derived > 100 * VARIANTS


def test_named_objects_are_listed_and_stated_equally(examples):
    reordered = 0
    for example in examples:
        asked = question_categories(example.question)
        if example.question.type == "room_size_estimation":
            assert not example.question.text.startswith("What is where")
            assert re.search(r"room \d", example.given)
            continue
        assert example.given == ""
        where = re.match(r"What is where: (.+)\.\n\n", example.question.text)[1].split("; ")
        places = reasoning(example).partition(". ")[0].split("; ")
        assert set(places) <= set(where)
        assert len(set(places)) == len(set(asked)) < len(where) <= len(set(asked)) + MAX_OTHERS
        assert len(set(where)) == len(where)
        reordered += where[: len(places)] != places
    assert reordered > len(examples) / 2


def test_rotated_positions_are_non_negative_and_differ(examples):
    count = len(examples) // VARIANTS
    for example in examples[count:]:
        assert not re.search(r"-\d", example.question.text)
    placed = [
        number for number in range(count) if re.search(r"\d\.\d \d", reasoning(examples[number]))
    ]
    assert len(placed) > 100
    for number in placed:
        assert len({reasoning(one) for one in examples[number::count]}) > VARIANTS / 2


@pytest.mark.parametrize("angle", [0.3, math.pi / 2, 4.0])
def test_rotation_preserves_everything_but_positions(angle):
    known = next(iter(load_knowledge(load_rooms(BUNDLED)).values()))
    seen = rotate_room(known, angle)
    assert seen.extents == known.extents
    assert format_rooms(seen.extents) == format_rooms(known.extents) != "room ?"
    boxes, images = ([box for some in one.boxes.values() for box in some] for one in (known, seen))
    assert seen.boxes.keys() == known.boxes.keys()
    centres, moved = (np.array([box.centre for box in some]) for some in (boxes, images))
    np.testing.assert_allclose(moved[:, :2].min(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(moved[:, 2], centres[:, 2], atol=1e-9)
    ways = (centres - centres[0])[:, :2] @ (1, 1j), (moved - moved[0])[:, :2] @ (1, 1j)
    np.testing.assert_allclose(ways[1], ways[0] * np.exp(1j * angle), atol=1e-9)
    for number in range(1, len(boxes)):
        before = distance(boxes[0], boxes[number])
        assert distance(images[0], images[number]) == pytest.approx(before, abs=1e-6)
        assert np.linalg.det(images[number].axes) == pytest.approx(1)


def test_prompt_matches_a_run_without_views(tmp_path):
    (question, *_) = load_rooms(BUNDLED)
    config = make_config(
        tmp_path,
        BUNDLED / "questions.jsonl",
        views="none",
        engine="transformers",
        model="small",
    )
    messages = blind_messages(question, config.max_turns)
    assert messages == build(config).prompt.opening(question, (), None)
