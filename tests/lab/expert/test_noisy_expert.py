"""The noisy expert: an unreadable answer gets feedback, and the next reply is the expert's."""

import json
from itertools import pairwise

import numpy as np
import pytest
from factories.runs import play, transcripts

from render_agent.dialogue.answer import canonical_answer, options_by_letter
from render_agent.dialogue.wording import general
from render_agent.engines.scripted.scripted_engine import make_scripted
from render_agent.options import RunConfig
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent_lab.expert.noisy_expert import STUMBLE_PROBABILITY, is_stumble

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are not here"),
]

SCENES = ("room01", "room05")
OPTIONS = {"views": "top", "image_size": (64, 48), "scene": SCENES}


def run_of(folder, model, **options):
    asked = [question for question in load_bundled_rooms() if question.scene in SCENES]
    options = {**OPTIONS, **options}
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", **options)
    path, _ = play(folder, "rooms", make_scripted(model, asked, 0, 64, config), **options)
    return {question.id: question for question in asked}, transcripts(path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the questions, and the turns by question of the noisy expert and of the expert."""
    folder = tmp_path_factory.mktemp("runs")
    asked, stumbled = run_of(folder / "stumbled", "stumbler")
    return asked, stumbled, run_of(folder / "straight", "expert")[1]


def test_unreadable_answers_are_reported_and_corrected_in_the_next_turn(runs):
    asked, stumbled, straight = runs
    wrong = 0
    for name, turns in stumbled.items():
        *before, last = turns
        assert json.loads(last["reply"]) == json.loads(straight[name][-1]["reply"])
        for turn in before:
            wrong += 1
            said = json.loads(turn["reply"])
            question = asked[name]
            assert canonical_answer(said["answer"], question.answer_form, question.options) is None
            assert general().beginning("feedback.unreadable") in turn["happened"]
            assert said["answer"] in turn["happened"]
            same_type = [q for q in asked.values() if q.type == question.type]
            assert any(said["answer"] in options_by_letter(q.options).values() for q in same_type)
    assert wrong >= 5


def test_numeric_questions_and_last_turns_match_the_expert(runs, tmp_path):
    asked, stumbled, straight = runs
    numbers = [name for name, question in asked.items() if question.answer_form == "number"]
    assert numbers
    for name in numbers:
        assert stumbled[name] == straight[name]
    _, short = run_of(tmp_path, "stumbler", max_turns=1)
    for name, turns in short.items():
        assert (
            json.loads(turns[0]["reply"])["answer"]
            == json.loads(straight[name][-1]["reply"])["answer"]
        )


def test_unreadable_answers_never_come_twice_in_a_row():
    drawn = [[is_stumble(str(n), 0, turn) for turn in range(4)] for n in range(1000)]
    assert abs(np.mean([first for first, *_ in drawn]) - STUMBLE_PROBABILITY) < 0.05
    assert not any(one and other for some in drawn for one, other in pairwise(some))
