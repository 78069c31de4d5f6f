"""Text-only choices: only the answer is learned, and the derived answer is not an option."""

import json
from collections import Counter

import pytest
from factories.runs import play, transcripts

from render_agent.dialogue import wording
from render_agent.dialogue.answer import canonical_answer, options_by_letter
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.tasks.box_answers import DIRECTION_NAMES
from render_agent.tasks.rooms import BUNDLED, load_rooms
from render_agent_lab.expert.derive import question_categories
from training.choices import (
    ANSWER,
    NEAREST,
    NEAREST_VARIANTS,
    ROUTE_VARIANTS,
    SIDES,
    names,
    nearest,
    routes,
)
from training.wording import FILE, small_wording

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are not here"),
]


@pytest.fixture(scope="module")
def examples():
    return list(routes(BUNDLED))


def parse_reply(example):
    return json.loads(example.prefix + example.completion)


def test_answers_are_the_ground_truth_in_option_words(examples):
    for example in examples:
        question, reply = example.question, parse_reply(example)
        assert reply["done"] is True
        assert reply["answer"] == options_by_letter(question.options)[question.ground_truth]
        assert example.completion.startswith(ANSWER)
        assert ANSWER not in example.prefix


def derived_answer(example):
    return parse_reply(example)["reasoning"].rpartition(". ")[2]


def test_routes_from_wrong_positions_match_no_option(examples):
    mistaken = [e for e in examples if ". facing" in parse_reply(e)["reasoning"]]
    assert len(mistaken) > len({example.question.id for example in mistaken}) >= 5
    for example in mistaken:
        assert canonical_answer(derived_answer(example), "letter", example.question.options) is None
        legs = parse_reply(example)["reasoning"].split(". ", 1)[1].split(";")
        turns = [part.split(": ")[1].partition(".")[0] for part in legs]
        assert derived_answer(example) == ", ".join(f"Turn {turn.capitalize()}" for turn in turns)
    assert max(Counter(example.question.id for example in mistaken).values()) <= ROUTE_VARIANTS


@pytest.fixture
def small_wording_in_runs(monkeypatch):
    """Make runs use the small model's wording, as when training data is recorded."""
    monkeypatch.setattr(wording, "GENERAL_FILE", FILE)
    wording.general.cache_clear()
    yield
    wording.general.cache_clear()


@pytest.mark.usefixtures("small_wording_in_runs")
def test_rejections_have_the_text_of_a_real_run(examples, tmp_path):
    """The same reply in a run without views produces the same feedback."""
    rejected = [example for example in examples if example.history]
    assert len(rejected) >= 5
    example = rejected[0]
    reply, feedback = (message["content"][0]["text"] for message in example.history)
    assert json.loads(reply)["answer"] == derived_answer(example)
    engine = ScriptedEngine(
        ReplayPolicy({example.question.id: [reply, example.prefix + example.completion]}), 64
    )
    path, results = play(
        tmp_path, "rooms", engine, views="none", id=(example.question.id,), max_turns=9
    )
    (turns,) = transcripts(path).values()
    assert [turn["happened"] for turn in turns[1:]] == ["Done."]
    (message,) = turns[1]["messages"]
    assert message["content"][0]["text"] == feedback
    assert results["questions"][0]["answer"] == example.question.ground_truth


def test_ground_truth_is_learned_after_an_invalid_name():
    examples = list(names(BUNDLED))
    questions = {
        question.id: question
        for question in load_rooms(BUNDLED)
        if question.type == NEAREST or question.type in DIRECTION_NAMES
    }
    assert {example.question.type for example in examples} == {
        question.type for question in questions.values()
    }
    assert len({example.question.id for example in examples}) >= len(questions) / 2
    for example in examples:
        question = example.question
        stated_name = example.prefix.rpartition(": ")[2]
        assert canonical_answer(stated_name, "letter", question.options) is None
        assert (stated_name in SIDES) == (question.type in DIRECTION_NAMES)
        assert (
            parse_reply(example)["answer"]
            == options_by_letter(question.options)[question.ground_truth]
        )
        if example.history:
            reply, feedback = (message["content"][0]["text"] for message in example.history)
            assert json.loads(reply)["answer"] == stated_name
            assert small_wording().beginning("feedback.unreadable") in feedback
    assert sum(bool(example.history) for example in examples) * 2 == len(examples)


def test_nearest_answer_is_the_smallest_stated_distance():
    examples = list(nearest(BUNDLED))
    question_ids = {q.id for q in load_rooms(BUNDLED) if q.type == NEAREST}
    assert Counter(e.question.id for e in examples) == dict.fromkeys(question_ids, NEAREST_VARIANTS)
    ranks = Counter()
    for example in examples:
        reply = parse_reply(example)
        derivation, _, smallest = reply["reasoning"].rpartition(": ")
        separations = derivation.rpartition(". ")[2]
        parts = separations.split(", ")
        options = question_categories(example.question)[:-1]
        for part, name in zip(parts, options, strict=True):
            assert part.startswith(f"{name} ")
        metres = [float(part.rpartition(" ")[2]) for part in parts]
        assert metres[options.index(smallest)] == min(metres)
        assert canonical_answer(reply["answer"], "letter", example.question.options) is not None
        assert (reply["answer"], reply["done"]) == (smallest, True)
        assert example.prefix + example.completion == json.dumps(reply)
        assert example.completion == f': {smallest}", "answer": "{smallest}", "done": true}}'
        ranks[options.index(smallest)] += 1
    assert len(ranks) == 4
    assert min(ranks.values()) > len(examples) / 10  # the displacements change the order
