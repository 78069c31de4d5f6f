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
    pytest.mark.skipif(not BUNDLED.is_dir(), reason="bundled rooms not found"),
]

SCENES = ("room01", "room05")
OPTIONS = {"views": "top", "image_size": (64, 48), "scene": SCENES}


def run_policy(folder, name, **options):
    """Return the questions and their turns, by question id."""
    questions = [question for question in load_bundled_rooms() if question.scene in SCENES]
    options = {**OPTIONS, **options}
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", **options)
    path, _ = play(folder, "rooms", make_scripted(name, questions, 0, 64, config), **options)
    return {question.id: question for question in questions}, transcripts(path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the questions, and the turns by question of the noisy expert and of the expert."""
    folder = tmp_path_factory.mktemp("runs")
    questions, noisy = run_policy(folder / "noisy", "stumbler")
    return questions, noisy, run_policy(folder / "expert", "expert")[1]


def test_unreadable_answers_are_reported_and_corrected_in_the_next_turn(runs):
    questions, noisy, expert = runs
    num_unreadable = 0
    for name, turns in noisy.items():
        *earlier, last = turns
        assert json.loads(last["reply"]) == json.loads(expert[name][-1]["reply"])
        for turn in earlier:
            num_unreadable += 1
            answer, question = json.loads(turn["reply"])["answer"], questions[name]
            assert canonical_answer(answer, question.answer_form, question.options) is None
            assert general().beginning("feedback.unreadable") in turn["happened"]
            assert answer in turn["happened"]
            same_type = [q for q in questions.values() if q.type == question.type]
            assert any(answer in options_by_letter(q.options).values() for q in same_type)
    assert num_unreadable >= 5


def test_numeric_questions_and_last_turns_match_the_expert(runs, tmp_path):
    questions, noisy, expert = runs
    numeric = [name for name, question in questions.items() if question.answer_form == "number"]
    assert numeric
    for name in numeric:
        assert noisy[name] == expert[name]
    _, short = run_policy(tmp_path, "stumbler", max_turns=1)
    for name, turns in short.items():
        expected = json.loads(expert[name][-1]["reply"])["answer"]
        assert json.loads(turns[0]["reply"])["answer"] == expected


def test_unreadable_answers_never_come_twice_in_a_row():
    dialogues = [[is_stumble(str(n), 0, turn) for turn in range(4)] for n in range(1000)]
    assert abs(np.mean([first for first, *_ in dialogues]) - STUMBLE_PROBABILITY) < 0.05
    assert not any(a and b for dialogue in dialogues for a, b in pairwise(dialogue))
