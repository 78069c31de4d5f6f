"""Choices on text: the reasoning is given, the answer is learned, and what was derived is no option."""

import json

import pytest

from render_agent.answer import canonical, letters
from render_agent.expert.derive import things
from render_agent.named import kind_of
from render_agent.questions.rooms import BUNDLED, load_rooms
from training.choices import ANSWER, MISTAKES, choices, encode_choices
from training.dialogue_file import load_dialogues
from training.processor import small_processor
from training.tokenizer import small_tokenizer

pytestmark = pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are not here")


@pytest.fixture(scope="module")
def examples():
    return list(choices(BUNDLED))


def reply_of(example):
    return json.loads(example.given + example.learned)


def test_each_ends_in_the_truth_in_its_options_words(examples):
    for example in examples:
        question, reply = example.question, reply_of(example)
        assert reply["done"] is True
        assert reply["answer"] == letters(question.options)[question.truth]
        assert example.learned.startswith(ANSWER)
        assert ANSWER not in example.given


def test_every_question_with_options_comes_without_reasoning_and_with_things_never_found(examples):
    asked = {question.id for question in load_rooms(BUNDLED) if question.wanted == "letter"}
    empty = [e.question.id for e in examples if reply_of(e)["reasoning"] == ""]
    partly = [e for e in examples if "?" in reply_of(e)["reasoning"]]
    assert len(empty) == len(set(empty))
    assert set(empty) == {e.question.id for e in partly} == asked
    for example in partly:
        said = reply_of(example)["reasoning"].split("; ")
        assert len(said) == len(things(example.question))  # and nothing follows from them


def test_routes_from_wrong_places_lead_to_no_option(examples):
    wrong = [e for e in examples if ". facing" in reply_of(e)["reasoning"]]
    routes = [e.question for e in examples if kind_of(e.question) == "route_planning"]
    assert len(wrong) > len({question.id for question in routes})
    for example in wrong:
        question, reply = example.question, reply_of(example)
        assert kind_of(question) == "route_planning"
        derived = reply["reasoning"].rpartition(". ")[2]
        assert derived.startswith("Turn ")
        assert canonical(derived, "letter", question.options) is None
        told = [part.split(": ")[1] for part in reply["reasoning"].split(". ", 1)[1].split(";")]
        turns = [part.partition(".")[0] for part in told]
        assert derived == ", ".join(f"Turn {turn.capitalize()}" for turn in turns)
    assert max(sum(e.question.id == q.id for e in wrong) for q in routes) <= MISTAKES


def test_the_same_rooms_give_the_same(examples):
    assert list(choices(BUNDLED)) == examples


def test_only_the_answer_is_learned_of_a_reply(examples, tmp_path):
    tokenizer = small_tokenizer()
    encode_choices(tmp_path, [BUNDLED], small_processor(tokenizer))
    made = load_dialogues(tmp_path / "dialogues.npz")
    assert len(made) == len(examples)
    for number in range(0, len(examples), 40):
        part = slice(*made.offsets[number : number + 2])
        learned = tokenizer.decode(made.ids[part][made.learned[part]].tolist())
        assert learned == f"{examples[number].learned}<|im_end|>"
