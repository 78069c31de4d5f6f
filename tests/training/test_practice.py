"""A learner's own dialogues, corrected: what it said stays as it was, what is learned is the expert's."""

import json

import pytest
from factories.runs import STEP, play, transcripts

from render_agent.dialogue.answer import canonical, letters
from render_agent.dialogue.wording import general
from render_agent.engines.scripted import Replies
from render_agent.engines.scripted.scripted_engine import ScriptedEngine, make_scripted
from render_agent.options import RunConfig
from render_agent.runs.read import RunData
from render_agent.tasks.rooms import BUNDLED, bundled
from render_agent_lab.expert.search import is_wrong_turn
from training.practice import practise

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are not here"),
]

OPTIONS = {"image_size": (320, 240), "scene": ("room05",), "max_turns": 4}

NO_OPTION = json.dumps({"answer": "under the carpet", "done": True})


def asked():
    return {question.id: question for question in bundled() if question.scene in OPTIONS["scene"]}


def corrected(folder, engine):
    """Return the turns of a run by question, and the lines that come of it by question."""
    path, _ = play(folder, "rooms", engine, **OPTIONS)
    found = {}
    for line in practise(RunData(path), folder):
        found.setdefault(line["id"], []).append(line)
    return transcripts(path), found


@pytest.fixture(scope="module")
def stubborn(tmp_path_factory):
    """Return the dialogues of one who moves and then only says what cannot be read, and their lines."""
    folder = tmp_path_factory.mktemp("stubborn")
    return folder, *corrected(folder, ScriptedEngine(Replies({"*": [STEP, NO_OPTION]}), 64))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Return the dialogues of the expert itself, and their lines."""
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", **OPTIONS)
    engine = make_scripted("expert", list(asked().values()), 0, 64, config)
    return corrected(tmp_path_factory.mktemp("known"), engine)


def said(entry):
    return "".join(piece.get("text", "") for piece in entry["content"])


def without_folder(messages):
    """Return messages with the pictures named as the run names them."""
    text = json.dumps(messages)
    for line in {part for part in text.split('"') if "/views/" in part}:
        text = text.replace(line, "views/" + line.partition("/views/")[2])
    return json.loads(text)


def test_what_comes_before_is_the_learners_own_dialogue(stubborn):
    _, turns, lines = stubborn
    assert turns.keys() == lines.keys() == asked().keys()
    for name, some in lines.items():
        whole = []
        for turn, line in zip(
            turns[name], some, strict=True
        ):  # it never replies as the expert does
            whole += turn["messages"]
            assert without_folder(line["messages"][:-1]) == whole
            whole.append(
                line["messages"][-1] | {"content": [{"type": "text", "text": turn["reply"]}]}
            )
            assert line["learned"] == [len(line["messages"]) - 1]


def test_after_what_could_not_be_read_the_truth_is_learned(stubborn):
    _, _, lines = stubborn
    ended = 0
    for name, some in lines.items():
        question = asked()[name]
        truth = letters(question.options).get(question.truth, question.truth)
        for line in some[2:]:
            assert general().beginning("feedback.unreadable") in said(line["messages"][-2])
        for line in some:
            reply = json.loads(said(line["messages"][-1]))
            assert reply["answer"] in (truth, None)
            assert (reply["answer"] is not None) == reply["done"]
            ended += reply["done"]
        assert json.loads(said(some[-1]["messages"][-1]))["done"]  # no turn follows
        assert canonical("under the carpet", question.wanted, question.options) is None
    assert ended > len(lines)


def test_who_replies_as_the_expert_is_corrected_only_where_it_strayed(known):
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
        assert sum(len(line["learned"]) for line in some) == len(replies)  # each once
        *before, whole = some
        told = [said(entry) for entry in whole["messages"] if entry["role"] == "assistant"]
        assert told == [turn["reply"] for turn in turns[name]]
        for number, line in zip(wrong, before, strict=True):
            right = json.loads(said(line["messages"][-1]))
            assert right != replies[number]
            assert 2 * number + 1 < len(line["messages"])
    assert strayed >= 1
