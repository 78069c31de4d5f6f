"""Corrected dialogues of a learner: earlier messages are its own, and the learned replies are the expert's."""

import json

import pytest
from factories.runs import STEP, play, transcripts

from render_agent.dialogue.answer import canonical_answer, options_by_letter
from render_agent.dialogue.wording import general
from render_agent.engines.scripted import ReplayPolicy
from render_agent.engines.scripted.scripted_engine import ScriptedEngine, make_scripted
from render_agent.options import RunConfig
from render_agent.runs.read import RunData
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent_lab.expert.search import is_wrong_turn
from training.practice import practise

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are not here"),
]

OPTIONS = {"image_size": (320, 240), "scene": ("room05",), "max_turns": 4}

NO_OPTION = json.dumps({"answer": "under the carpet", "done": True})


def asked():
    return {
        question.id: question
        for question in load_bundled_rooms()
        if question.scene in OPTIONS["scene"]
    }


def corrected(folder, engine):
    """Return the turns of a run, and the corrected dialogues, by question."""
    path, _ = play(folder, "rooms", engine, **OPTIONS)
    corrections = {}
    for line in practise(RunData(path), folder):
        corrections.setdefault(line["id"], []).append(line)
    return transcripts(path), corrections


@pytest.fixture(scope="module")
def stubborn(tmp_path_factory):
    """Return the dialogues of a learner that moves once and then only gives unreadable answers, and their lines."""
    folder = tmp_path_factory.mktemp("stubborn")
    return folder, *corrected(folder, ScriptedEngine(ReplayPolicy({"*": [STEP, NO_OPTION]}), 64))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Return the dialogues of the expert itself, and their lines."""
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", **OPTIONS)
    engine = make_scripted("expert", list(asked().values()), 0, 64, config)
    return corrected(tmp_path_factory.mktemp("known"), engine)


def said(entry):
    return "".join(piece.get("text", "") for piece in entry["content"])


def without_folder(messages):
    """Return messages with image paths relative to the run."""
    text = json.dumps(messages)
    for line in {part for part in text.split('"') if "/views/" in part}:
        text = text.replace(line, "views/" + line.partition("/views/")[2])
    return json.loads(text)


def test_earlier_messages_are_the_learners_own(stubborn):
    _, turns, lines = stubborn
    assert turns.keys() == lines.keys() == asked().keys()
    for name, some in lines.items():
        whole = []
        for turn, line in zip(turns[name], some, strict=True):  # it never agrees with the expert
            whole += turn["messages"]
            assert without_folder(line["messages"][:-1]) == whole
            whole.append(
                line["messages"][-1] | {"content": [{"type": "text", "text": turn["reply"]}]}
            )
            assert line["learned"] == [len(line["messages"]) - 1]


def test_ground_truth_is_learned_after_unreadable_replies(stubborn):
    _, _, lines = stubborn
    ended = 0
    for name, some in lines.items():
        question = asked()[name]
        truth = options_by_letter(question.options).get(
            question.ground_truth, question.ground_truth
        )
        for line in some[2:]:
            assert general().beginning("feedback.unreadable") in said(line["messages"][-2])
        for line in some:
            reply = json.loads(said(line["messages"][-1]))
            assert reply["answer"] in (truth, None)
            assert (reply["answer"] is not None) == reply["done"]
            ended += reply["done"]
        assert json.loads(said(some[-1]["messages"][-1]))["done"]  # no turn follows
        assert canonical_answer("under the carpet", question.answer_form, question.options) is None
    assert ended > len(lines)


def test_expert_is_corrected_only_in_wrong_turns(known):
    turns, lines = known
    strayed = 0
    for name, some in lines.items():
        replies = [json.loads(turn["reply"]) for turn in turns[name]]
        wrong = [
            number
            for number, reply in enumerate(replies)
            if not reply["done"] and is_wrong_turn(name, 0, number)
        ]
        strayed += len(wrong)
        assert len(some) == len(wrong) + 1
        assert sum(len(line["learned"]) for line in some) == len(replies)  # each reply once
        *before, whole = some
        spoken = [said(entry) for entry in whole["messages"] if entry["role"] == "assistant"]
        assert spoken == [turn["reply"] for turn in turns[name]]
        for number, line in zip(wrong, before, strict=True):
            right = json.loads(said(line["messages"][-1]))
            assert right != replies[number]
            assert 2 * number + 1 < len(line["messages"])
    assert strayed >= 1
