"""Tests of LLM-Match: the judge's prompt, parsing of marks, and scores."""

import json
from dataclasses import replace

import pytest
from factories.runs import make_questions, play, walking_engine
from factories.scenes import room, write_ply

from render_agent.dialogue.question import Question
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.runs.llm_match import mark_answers, prompt, read_mark
from render_agent.runs.read import RunData

QUESTION = Question(
    "q", "own", "d", "s", "own", "What is red?", "text", ground_truth="the door", metric="llm-match"
)


@pytest.mark.parametrize(
    ("reply", "mark"),
    [("4", 4), (" 5\n", 5), ("Your mark: 3", 3), ("So.\nYour mark: 2\nThanks", 2), ("Your mark: 6", None),
     ("0", None), ("five", None), ("I give 4", None), ("", None), ("Your mark: 45", None)],
)  # fmt: skip
def test_marks_are_parsed_like_openeqa(reply, mark):
    assert read_mark(reply) == mark


def test_judge_prompt_is_the_published_one():
    filled = prompt(QUESTION, "A door. I think")
    assert filled.endswith(
        "Your Turn:\nQuestion: What is red?\nAnswer: the door\nResponse: A door."
    )
    assert "Extra Answers" not in filled
    with_braces = prompt(replace(QUESTION, answers=("door {x}",)), "no {brace}")
    assert with_braces.endswith(
        "Answer: the door\nExtra Answers: ['door {x}']\nResponse: no {brace}"
    )


class Judge:
    """Gives a high mark if the answer names the door."""

    def reply(self, request):
        response = request.messages[0]["content"][0]["text"].rsplit("Response:", 1)[1]
        return "no idea" if "odd" in response else f"Your mark: {5 if 'door' in response else 2}"


@pytest.fixture
def run(tmp_path):
    write_ply(tmp_path / "room.ply", *room())
    row = {"dataset": "rooms", "scene_name": "room", "question_type": "own", "question": "What is red?",
           "ground_truth": ["the door", "a door"], "metric": "llm-match"}  # fmt: skip
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row | {"id": number}) + "\n" for number in range(4)))
    answers = {"0": "a red door", "1": "a sofa", "2": "something odd", "3": None}
    replies = {name: [json.dumps({"answer": text, "done": True})] for name, text in answers.items()}
    return play(tmp_path, path, ScriptedEngine(ReplayPolicy(replies)), max_turns=1, views="none")


def test_marks_are_saved_separately_from_official_results(run, tmp_path, type_in):
    path, results = run
    assert [row["score"] for row in results["questions"]] == [None] * 4
    assert any("render-agent score RUN --judge" in note for note in results["notes"])
    assert results["official_over_scored"]["n"] == 0
    marked = mark_answers(RunData(path).states, ScriptedEngine(Judge()), 32)
    assert marked.marks == {"0": 5, "1": 2, "3": 1}
    assert marked.scores == {"0": 1, "1": 0.25, "3": 0}
    assert list(marked.faults) == ["2"]
    marks = {"2": "Your mark: 4", "0": "5", "1": "2"}
    lines = [json.dumps({"id": name, "replies": [mark]}) for name, mark in marks.items()]
    (tmp_path / "judge.jsonl").write_text("\n".join(lines))
    code, out, err = type_in(
        "score",
        str(path),
        "--judge",
        "--engine",
        "scripted",
        "--model",
        "judge.jsonl",
        "--json",
        folder=tmp_path,
    )
    assert code == 0, err
    saved = json.loads((path / "results.llm-match.json").read_text())
    assert saved["llm_match"] == json.loads(out)["llm_match"]
    assert saved["llm_match"]["score"] == pytest.approx(50)  # 1, 0.25, 0.75, 0
    assert [row["score"] for row in saved["questions"]] == [1, 0.25, 0.75, 0]
    assert saved["official_over_scored"] == {"score": pytest.approx(50), "n": 4}


def test_judge_requires_free_text_questions(tmp_path, type_in):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking_engine(1))
    code, _, err = type_in("score", str(path), "--judge", folder=tmp_path)
    assert code == 2
    assert "free-text" in err
