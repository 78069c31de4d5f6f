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
from training.practice import corrected_dialogues

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are not here"),
]

OPTIONS = {"image_size": (320, 240), "scene": ("room05",), "max_turns": 4}

NO_OPTION = json.dumps({"answer": "under the carpet", "done": True})


def questions_by_id():
    return {
        question.id: question
        for question in load_bundled_rooms()
        if question.scene in OPTIONS["scene"]
    }


def play_and_correct(folder, engine):
    """Play a run; return its turns and the corrected dialogues, both by question."""
    path, _ = play(folder, "rooms", engine, **OPTIONS)
    corrections = {}
    for line in corrected_dialogues(RunData(path), folder):
        corrections.setdefault(line["id"], []).append(line)
    return transcripts(path), corrections


@pytest.fixture(scope="module")
def stubborn(tmp_path_factory):
    """Play a learner that moves once and then only gives unreadable answers."""
    engine = ScriptedEngine(ReplayPolicy({"*": [STEP, NO_OPTION]}), 64)
    return play_and_correct(tmp_path_factory.mktemp("stubborn"), engine)


@pytest.fixture(scope="module")
def expert_dialogues(tmp_path_factory):
    """Play the expert itself."""
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", **OPTIONS)
    engine = make_scripted("expert", list(questions_by_id().values()), 0, 64, config)
    return play_and_correct(tmp_path_factory.mktemp("expert"), engine)


def text_of(message):
    return "".join(piece.get("text", "") for piece in message["content"])


def without_folder(messages):
    """Return messages with image paths relative to the run."""
    text = json.dumps(messages)
    for path in {part for part in text.split('"') if "/views/" in part}:
        text = text.replace(path, "views/" + path.partition("/views/")[2])
    return json.loads(text)


def test_earlier_messages_are_the_learners_own(stubborn):
    turns, lines = stubborn
    assert turns.keys() == lines.keys() == questions_by_id().keys()
    for question_id, corrections in lines.items():
        history = []
        for turn, line in zip(
            turns[question_id], corrections, strict=True
        ):  # it never agrees with the expert
            history += turn["messages"]
            assert without_folder(line["messages"][:-1]) == history
            history.append(
                line["messages"][-1] | {"content": [{"type": "text", "text": turn["reply"]}]}
            )
            assert line["learned"] == [len(line["messages"]) - 1]


def test_ground_truth_is_learned_after_unreadable_replies(stubborn):
    _, lines = stubborn
    num_answers = 0
    for question_id, corrections in lines.items():
        question = questions_by_id()[question_id]
        truth = options_by_letter(question.options).get(
            question.ground_truth, question.ground_truth
        )
        for line in corrections[2:]:
            assert general().beginning("feedback.unreadable") in text_of(line["messages"][-2])
        for line in corrections:
            reply = json.loads(text_of(line["messages"][-1]))
            assert reply["answer"] in (truth, None)
            assert (reply["answer"] is not None) == reply["done"]
            num_answers += reply["done"]
        assert json.loads(text_of(corrections[-1]["messages"][-1]))["done"]  # no turn follows
        assert canonical_answer("under the carpet", question.answer_form, question.options) is None
    assert num_answers > len(lines)


def test_expert_is_corrected_only_in_wrong_turns(expert_dialogues):
    turns, lines = expert_dialogues
    num_wrong = 0
    for question_id, corrections in lines.items():
        replies = [json.loads(turn["reply"]) for turn in turns[question_id]]
        wrong = [
            number
            for number, reply in enumerate(replies)
            if not reply["done"] and is_wrong_turn(question_id, 0, number)
        ]
        num_wrong += len(wrong)
        assert len(corrections) == len(wrong) + 1
        assert sum(len(line["learned"]) for line in corrections) == len(replies)  # every reply once
        *earlier, last = corrections
        replies_in_prompt = [
            text_of(entry) for entry in last["messages"] if entry["role"] == "assistant"
        ]
        assert replies_in_prompt == [turn["reply"] for turn in turns[question_id]]
        for number, line in zip(wrong, earlier, strict=True):
            correction = json.loads(text_of(line["messages"][-1]))
            assert correction != replies[number]
            assert 2 * number + 1 < len(line["messages"])
    assert num_wrong >= 1
