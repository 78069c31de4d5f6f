"""Arithmetic on text: the prompt of a run without views, the places given, the rest learned."""

import json

import pytest
from made_runs import make_config

from render_agent.dialogues import make_prompt
from render_agent.questions.rooms import BUNDLED, load_rooms
from training.dialogue_file import DIALOGUES, load_dialogues
from training.processor import small_processor
from training.text_examples import VIEWS, blind_messages, encode_rooms, rooms_examples
from training.tokenizer import small_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


@pytest.fixture(scope="module")
def encoded(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    encode_rooms(folder, [BUNDLED], small_processor(tokenizer))
    return load_dialogues(folder / DIALOGUES)


def test_every_bundled_question_becomes_an_example(encoded, tokenizer):
    examples = rooms_examples(BUNDLED)
    questions = load_rooms(BUNDLED)
    assert len(encoded) == len(examples) == len(questions)
    assert encoded.types.tolist() == [question.type for question in questions]
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
        assert said["answer"] == question.truth


def test_the_prompt_is_that_of_a_run_without_views(tmp_path):
    (question, *_) = load_rooms(BUNDLED)
    config = make_config(tmp_path, BUNDLED / "questions.jsonl", views="none")
    told = blind_messages(question, config.max_turns)
    assert told == make_prompt(config).opening(question, (), None)
