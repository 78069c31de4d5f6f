"""End-to-end runs of vote:K: voters, winner, feedback and log."""

import json

import pytest
from factories.runs import evidence_by_turn, make_questions, play, transcripts
from factories.samples import FreeRunning, mixed_engine

from render_agent.engines.scripted import ScriptedEngine
from render_agent.runs.read import RunData

VOTING = {"agent": "vote:5", "temperature": 1.0, "verifier": ()}
QUICK = {"image_size": (48, 36), "max_turns": 4, "view_types": ("ego", "top")}

AHEAD = {"rotation_angle_degrees": 30, "forward_meters": 0.3}
NEARLY = {"rotation_angle_degrees": 33, "forward_meters": 0.32}
AWAY = {"rotation_angle_degrees": -90, "forward_meters": 0.3}
GARBAGE = "I would rather walk."


def done(answer, **more):
    return {"answer": answer, "done": True} | more


class Samples:
    """Returns predefined samples for each turn, and records the requests."""

    def __init__(self, *turns):
        self.turns = turns
        self.requests = []

    def reply(self, request):
        return self.samples(request)[0]

    def samples(self, request):
        self.requests.append(request)
        entries = self.turns[min(request.turn, len(self.turns) - 1)]
        return [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]


def vote(folder, *turns, question=0, **options):
    """Run question 0 (number) or 1 (letter); return its log lines, its row of the results and the requests."""
    questions = make_questions(folder, 2)
    questions.write_text(questions.read_text().splitlines(keepends=True)[question])
    policy = Samples(*turns)
    path, results = play(folder, questions, ScriptedEngine(policy), **VOTING | options)
    (row,) = results["questions"]
    return RunData(path).lines(), row, policy.requests


def test_most_frequent_move_is_made_and_fed_back(tmp_path):
    lines, _, requests = vote(tmp_path, [AWAY, AHEAD, GARBAGE, NEARLY, done("3")], [done("3")] * 5)
    evidence = lines[0]["evidence"]
    assert (evidence["agent"], evidence["chosen"], evidence["ballot"]) == ("vote:5", 1, None)
    assert [c["reply"] for c in evidence["candidates"]][1:3] == [json.dumps(AHEAD), GARBAGE]
    assert lines[0]["reply"] == json.dumps(AHEAD)
    assert lines[0]["camera"] == evidence["candidates"][1]["camera"] != lines[0]["stood"]
    replies = [m["content"][0]["text"] for m in requests[1].messages if m["role"] == "assistant"]
    assert replies == [json.dumps(AHEAD)]


def test_tied_moves_go_to_the_first(tmp_path):
    lines, _, _ = vote(tmp_path, [GARBAGE, AWAY, AHEAD, NEARLY, AWAY], [done("3")] * 5)
    assert lines[0]["evidence"]["chosen"] == 1


def test_moves_with_different_views_are_distinct(tmp_path):
    top = AHEAD | {"view": "top"}
    lines, _, _ = vote(tmp_path, [top, AHEAD, AHEAD | {"view": "ego"}, top, top], [done("3")] * 5)
    assert lines[0]["evidence"]["chosen"] == 0
    assert lines[1]["views"][0]["kind"] == "top"
    lines, _, _ = vote(tmp_path, [top, AHEAD, AHEAD | {"view": "ego"}, AWAY, AWAY], [done("3")] * 5)
    assert lines[0]["evidence"]["chosen"] == 1, "ego is the default view"


@pytest.mark.parametrize(
    ("turn", "winner"),
    [
        ([done("B"), AHEAD, done("A"), AHEAD, done("A")], "A"),
        ([GARBAGE, AHEAD, done("B"), GARBAGE, done("A")], "B"),
        ([done("A"), done("B"), AHEAD, AHEAD, GARBAGE], None),
        ([done("A"), done("A"), AHEAD, AWAY, NEARLY], None),
        ([done("A"), done(None), done(None), done(None), done("A")], None),
    ],
)
def test_majority_of_readable_samples_ends_the_dialogue(tmp_path, turn, winner):
    lines, row, _ = vote(tmp_path, turn, [done("C")] * 5, question=1, max_turns=2)
    if winner is None:
        assert len(lines) == 2
        assert "answer" not in lines[0]["action"]
    else:
        assert len(lines) == 1
        assert (row["status"], row["answer"]) == ("answered", winner)
        assert lines[0]["evidence"]["ballot"]["winner"] == winner


def test_number_with_the_least_loss_is_the_answer(tmp_path):
    turn = [done("one"), done("10."), done("8"), GARBAGE, AHEAD]
    lines, row, _ = vote(tmp_path, turn)
    (line,) = lines
    assert line["evidence"]["ballot"] == {
        "votes": ["1", "10", "8", None, None],
        "winner": "8",
        "agreement": pytest.approx(1 / 3),
        "expected": pytest.approx(1.6 / 3),
        "spread": pytest.approx(3.8586, abs=1e-4),
    }
    assert line["reply"] == json.dumps(done("8"))
    assert (row["answer"], row["answer_text"]) == ("8", "8")


def test_answer_text_is_that_of_the_winning_sample(tmp_path):
    lines, row, _ = vote(tmp_path, [done("nine"), done("(3)"), done("3"), done("3"), AHEAD])
    assert (row["answer"], row["answer_text"]) == ("3", "(3)")
    assert lines[0]["evidence"]["chosen"] == 1


def test_all_samples_with_an_answer_vote_in_the_last_turn(tmp_path):
    first = [AHEAD | {"answer": "B"}] * 5
    last = [AHEAD, GARBAGE, AHEAD | {"answer": "A"}, done("A"), AHEAD | {"answer": "A"}]
    lines, row, _ = vote(tmp_path, first, last, question=1, max_turns=2)
    assert lines[1]["evidence"]["ballot"]["votes"] == ["B", None, "A", "A", "A"]
    assert (row["answer"], lines[1]["reply"]) == ("A", json.dumps(last[2]))
    lines, row, _ = vote(
        tmp_path, first, [AHEAD, AHEAD, done("A"), GARBAGE, GARBAGE], question=1, max_turns=2
    )
    assert lines[1]["evidence"]["ballot"]["winner"] == row["answer"] == "B"


@pytest.mark.parametrize(("views", "num_views"), [("none", 0), ("four", 4)])
def test_vote_on_answers_without_moves(tmp_path, views, num_views):
    turns = [AHEAD, AHEAD, done("9"), GARBAGE, AHEAD], [done("2"), *[done("4")] * 4]
    lines, row, requests = vote(tmp_path, *turns, views=views, max_turns=3)
    assert (row["status"], row["answer"]) == ("answered", "4")
    assert [len(line["views"]) for line in lines] == [num_views, 0]
    assert [request.num_samples for request in requests] == [5, 5]


def test_schedule_does_not_change_votes(tmp_path):
    questions = make_questions(tmp_path, 4)

    def run(engine, **schedule):
        path, results = play(tmp_path, questions, engine, **QUICK | VOTING | schedule)
        return transcripts(path), evidence_by_turn(path), results["questions"]

    reference = run(mixed_engine())
    schedule = {"max_batched_turns": 0, "finish_together": 1}
    assert run(mixed_engine(1), **schedule) == reference
    engine = mixed_engine(5, FreeRunning)
    assert run(engine, **schedule | {"max_batched_turns": 4}) == reference
    _, evidence, _ = reference
    ballots = [entry["ballot"] for entry in evidence.values()]
    assert any(ballot and {"A", "B"} <= set(ballot["votes"]) for ballot in ballots)
    assert any(ballot is None for ballot in ballots)
    assert any(entry["chosen"] for entry in evidence.values())
