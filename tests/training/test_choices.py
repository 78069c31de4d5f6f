"""Text-only choices: the reasoning is given, the answer is learned, and the derived answer is not an option."""

import json
from collections import Counter

import pytest
from factories.runs import play, transcripts

from render_agent.dialogue import wording
from render_agent.dialogue.answer import canonical_answer, options_by_letter
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.tasks.exact_solver import DIRECTION_NAMES
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


def reply_of(example):
    return json.loads(example.given + example.learned)


def test_answers_are_the_ground_truth_in_option_words(examples):
    for example in examples:
        question, reply = example.question, reply_of(example)
        assert reply["done"] is True
        assert reply["answer"] == options_by_letter(question.options)[question.ground_truth]
        assert example.learned.startswith(ANSWER)
        assert ANSWER not in example.given


def derived(example):
    return reply_of(example)["reasoning"].rpartition(". ")[2]


def test_routes_from_wrong_positions_match_no_option(examples):
    wrong = [e for e in examples if ". facing" in reply_of(e)["reasoning"]]
    assert len(wrong) > len({example.question.id for example in wrong}) >= 5
    for example in wrong:
        assert canonical_answer(derived(example), "letter", example.question.options) is None
        legs = reply_of(example)["reasoning"].split(". ", 1)[1].split(";")
        turns = [part.split(": ")[1].partition(".")[0] for part in legs]
        assert derived(example) == ", ".join(f"Turn {turn.capitalize()}" for turn in turns)
    assert max(Counter(example.question.id for example in wrong).values()) <= ROUTE_VARIANTS


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
    rejected = [example for example in examples if example.before]
    assert len(rejected) >= 5
    one = rejected[0]
    said, after = (message["content"][0]["text"] for message in one.before)
    assert json.loads(said)["answer"] == derived(one)
    engine = ScriptedEngine(ReplayPolicy({one.question.id: [said, one.given + one.learned]}), 64)
    path, results = play(
        tmp_path, "rooms", engine, views="none", id=(one.question.id,), max_turns=9
    )
    (turns,) = transcripts(path).values()
    assert [turn["happened"] for turn in turns[1:]] == ["Done."]
    (message,) = turns[1]["messages"]
    assert message["content"][0]["text"] == after
    assert results["questions"][0]["answer"] == one.question.ground_truth


def test_invalid_names_are_given_and_the_ground_truth_is_learned():
    made = list(names(BUNDLED))
    asked = {
        question.id: question
        for question in load_rooms(BUNDLED)
        if question.type == NEAREST or question.type in DIRECTION_NAMES
    }
    assert {one.question.type for one in made} == {question.type for question in asked.values()}
    assert len({one.question.id for one in made}) >= len(asked) / 2
    for one in made:
        question = one.question
        said = one.given.rpartition(": ")[2]
        assert canonical_answer(said, "letter", question.options) is None
        assert (said in SIDES) == (question.type in DIRECTION_NAMES)
        assert reply_of(one)["answer"] == options_by_letter(question.options)[question.ground_truth]
        if one.before:
            reply, feedback = (message["content"][0]["text"] for message in one.before)
            assert json.loads(reply)["answer"] == said
            assert small_wording().beginning("feedback.unreadable") in feedback
    assert sum(bool(one.before) for one in made) * 2 == len(made)


def test_nearest_answer_is_the_smallest_stated_distance():
    made = list(nearest(BUNDLED))
    asked = {q.id for q in load_rooms(BUNDLED) if q.type == NEAREST}
    assert Counter(e.question.id for e in made) == dict.fromkeys(asked, NEAREST_VARIANTS)
    ranks = Counter()
    for example in made:
        reply = reply_of(example)
        derived, _, smallest = reply["reasoning"].rpartition(": ")
        said = derived.rpartition(". ")[2] if ". " in derived else derived
        parts = said.split(", ")
        options = question_categories(example.question)[:-1]
        for part, name in zip(parts, options, strict=True):
            assert part.startswith(f"{name} ")
        metres = [float(part.rpartition(" ")[2]) for part in parts]
        assert metres[options.index(smallest)] == min(metres)
        assert canonical_answer(reply["answer"], "letter", example.question.options) is not None
        assert (reply["answer"], reply["done"]) == (smallest, True)
        assert example.given + example.learned == json.dumps(reply)
        assert example.learned == f': {smallest}", "answer": "{smallest}", "done": true}}'
        ranks[options.index(smallest)] += 1
    assert len(ranks) == 4
    assert min(ranks.values()) > len(made) / 10  # the displacements change the order
