"""End-to-end runs of rephrase:RxK: groups, dialogues, and the chosen candidate."""

import json

import numpy as np
import pytest
from factories.runs import evidence_by_turn, make_questions, play, resume, transcripts, truncate_log
from factories.samples import FreeRunning, mixed_engine

from render_agent.agents.rephrase import best_of_best_group, read_wordings
from render_agent.dialogue.events import FEWER_WORDINGS
from render_agent.dialogue.reply import Action
from render_agent.dialogue.turn import Candidate
from render_agent.engines.scripted import ScriptedEngine
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera

QUICK = {"image_size": (48, 36), "max_turns": 4, "view_types": ("ego", "top"), "temperature": 1.0}
REPHRASE = QUICK | {"agent": "rephrase:3x2", "verifier": ("random",)}

COUNTING, DIRECTION = "How many box(s) are in this room?", "Is the red box left or right?"
OTHER = ["Left or right: where is the red box?", "On which side is the red box, left or right?"]
WORDINGS = json.dumps({"wordings": OTHER})


def candidates_of(*groups):
    """Return one candidate per entry, with these groups."""
    camera = Camera((0.0, 0.0, 1.5), 0.0, 0.0)
    return [Candidate(n, "", Action(), "", camera, group=group) for n, group in enumerate(groups)]


@pytest.mark.parametrize(
    ("groups", "values", "chosen"),
    [
        ([0, 0, 1, 1], [0.0, 1.0, 0.6, 0.5], 2),
        ([0, 0, 1, 1], [0.9, 1.0, 0.6, 0.5], 1),
        ([0, 1, 1, 2], [0.2, 0.9, 0.0, 0.5], 3),
        ([0, 0, 1, 1], [0.5, 0.5, 0.4, 0.6], 0),
        ([1, 1, 2], [0.5, 0.5, 0.5], 0),
        ([2], [0.0], 0),
    ],
)
def test_best_candidate_of_the_group_with_the_best_mean(groups, values, chosen):
    candidates = candidates_of(*groups)
    assert best_of_best_group(candidates, np.array(values)).number == chosen


class RecordingPolicy:
    """Replies with mixed moves, or with wordings if they are requested; records the requests."""

    def __init__(self, wordings="no"):
        self.wordings = wordings
        self.requests = []

    def reply(self, request):
        return self.samples(request)[0]

    def samples(self, request):
        self.requests.append(request)
        if request.temperature == 0:
            return [self.wordings]
        return mixed_engine().policy.samples(request)


class RecordingEngine(ScriptedEngine):
    """Records the requests and the retired dialogues."""

    def __init__(self, policy, batch_size=64):
        super().__init__(policy, batch_size)
        self.requests, self.retired = [], []

    def answer(self, requests):
        self.requests += requests
        return super().answer(requests)

    def retire(self, question_id):
        self.retired.append(question_id)


def run_rephrase(folder, wordings=WORDINGS, question=1, **options):
    """Run a question; return its log lines and the engine."""
    questions = make_questions(folder, 2)
    questions.write_text(questions.read_text().splitlines(keepends=True)[question])
    engine = RecordingEngine(RecordingPolicy(wordings))
    path, _ = play(folder, questions, engine, **REPHRASE | options)
    return RunData(path).lines(), engine


def texts(message):
    return [piece["text"] for piece in message["content"] if piece["type"] == "text"]


def test_dialogues_of_wordings_differ_in_the_question_only(tmp_path):
    lines, engine = run_rephrase(tmp_path)
    wordings = [DIRECTION, *OTHER]
    assert len(lines) > 1
    requests = [request for request in engine.requests if request.temperature]
    turns = [requests[at : at + 3] for at in range(0, len(requests), 3)]
    assert len(turns) == len(lines)
    before = [[]] * 3
    for line, groups in zip(lines, turns, strict=True):
        assert [request.num_samples for request in groups] == [2, 2, 2]
        assert {request.question_id or request.dialogue_id for request in groups} == {"1"}
        assert len({request.seed for request in groups}) == 3
        for wording, request, previous in zip(wordings, groups, before, strict=True):
            assert request.messages[: len(previous)] == previous
            first, *other_texts = texts(request.messages[1])
            assert first.startswith(wording + "\n")
            original_first, *original_others = texts(groups[0].messages[1])
            assert first.replace(wording, DIRECTION) == original_first
            assert other_texts == original_others
            assert request.messages[2:] == groups[0].messages[2:]
            assert request.messages[0] == groups[0].messages[0]
        before = [request.messages for request in groups]
        assert [m["role"] for m in before[0]].count("assistant") == line["turn"]
    assert lines[0]["messages"] == requests[0].messages, "the log has the original question text"
    assert lines[0]["evidence"]["wordings"] == list(wordings)
    assert [line["evidence"]["wordings"] for line in lines[1:]] == [[]] * (len(lines) - 1)
    assert set(engine.retired) == {request.dialogue_id for request in engine.requests}


def test_candidates_are_numbered_across_groups(tmp_path):
    lines, _ = run_rephrase(tmp_path, max_turns=9, seed=4)
    weighed = [line for line in lines if line["evidence"]["weighed"]]
    for line in weighed:
        evidence = line["evidence"]
        assert [c["number"] for c in evidence["candidates"]] == list(range(6))
        assert [c["group"] for c in evidence["candidates"]] == [0, 0, 1, 1, 2, 2]
        groups = {c["number"]: c["group"] for c in evidence["candidates"]}
        weighed_candidates = candidates_of(*(groups[number] for number in evidence["weighed"]))
        best = best_of_best_group(weighed_candidates, np.array(evidence["fused"]))
        assert evidence["chosen"] == evidence["weighed"][best.number]
        assert line["reply"] == evidence["candidates"][evidence["chosen"]]["reply"]
    assert any(line["evidence"]["chosen"] > 1 for line in weighed)


def test_wordings_are_requested_once(tmp_path):
    lines, engine = run_rephrase(tmp_path)
    requests = [request for request in engine.requests if request.temperature == 0]
    assert [(request.question_id, request.turn, request.num_samples) for request in requests] == [
        ("1", 0, 1)
    ]
    assert requests[0].dialogue_id != "1"
    assert requests[0].schema["properties"]["wordings"]["maxItems"] == 2
    assert DIRECTION in texts(requests[0].messages[0])[0]
    assert lines[0]["evidence"]["wordings"] == [DIRECTION, *OTHER]
    assert len(lines) > 1
    assert [len({c["group"] for c in line["evidence"]["candidates"]}) for line in lines] == [
        3
    ] * len(lines)
    assert requests[0].dialogue_id in engine.retired
    first = [request for request in engine.requests if request.turn == 0]
    assert {texts(r.messages[1])[0].split("\n")[0] for r in first[1:]} == {DIRECTION, *OTHER}
    num_tokens = sum(
        r.num_samples * len(t.split()) for r in first for m in r.messages for t in texts(m)
    )
    assert lines[0]["tokens"]["in"] == num_tokens, "tokens of the rephrase request are counted"
    assert lines[0]["events"] == []


@pytest.mark.parametrize(
    ("reply", "groups"), [("no", 1), (json.dumps({"wordings": [OTHER[0], DIRECTION]}), 2)]
)
def test_fewer_wordings_give_fewer_groups(tmp_path, reply, groups):
    lines, _ = run_rephrase(tmp_path, reply)
    assert len(lines[0]["evidence"]["wordings"]) == groups
    assert lines[0]["events"] == [FEWER_WORDINGS]
    assert len(lines) > 1
    for line in lines:
        assert len(line["evidence"]["candidates"]) == 2 * groups


def invariants(run):
    path, results = run
    columns = ("question_id", "status", "answer", "score", "turns")
    rows = [{name: row[name] for name in columns} for row in results["questions"]]
    return transcripts(path), evidence_by_turn(path), rows


def test_schedule_does_not_change_choices(tmp_path):
    questions = make_questions(tmp_path, 4)

    def run(engine_class, batch_size, **schedule):
        options = REPHRASE | schedule | {"verifier": ("random", "geometry")}
        return invariants(
            play(tmp_path, questions, mixed_engine(batch_size, engine_class), **options)
        )

    reference = run(ScriptedEngine, 64)
    schedule = {"max_batched_turns": 0, "finish_together": 1}
    assert run(ScriptedEngine, 1, **schedule) == reference
    assert run(FreeRunning, 5, **schedule | {"max_batched_turns": 4}) == reference
    assert len({row["turns"] for row in reference[2]}) > 1


def test_resumed_run_keeps_its_wordings(tmp_path):
    questions = make_questions(tmp_path, 2)

    def engine():
        return RecordingEngine(RecordingPolicy(WORDINGS))

    complete, results = play(tmp_path, questions, engine(), **REPHRASE)
    path, _ = play(tmp_path, questions, engine(), **REPHRASE)
    truncate_log(path, 3)
    resumed = engine()
    assert invariants((path, resume(path, resumed))) == invariants((complete, results))
    assert resumed.requests
    assert all(request.temperature for request in resumed.requests), "wordings come from the log"


QUESTION = "Which of the 2 lamps is nearer to the door than 1.5 m?"
FIRST = "Of the 2 lamps, which is nearer to the door than 1.5 m?"
SECOND = "Nearer than 1.5 m: which of 2?"
REWORDED = [FIRST, SECOND]


def wordings_reply(*wordings):
    return json.dumps({"wordings": list(wordings)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wordings_reply(*REWORDED), REWORDED),
        (f"<think>Two, then.</think>\n```json\n{wordings_reply(*REWORDED)}\n```", REWORDED),
        (wordings_reply(f" {FIRST} ", FIRST.upper(), QUESTION.lower(), "", 7, SECOND), REWORDED),
        (
            wordings_reply("Which of the 3 lamps is nearer to the door than 1.5 m?", SECOND),
            [SECOND],
        ),
        (wordings_reply(*REWORDED, FIRST + " Now."), REWORDED),
        (json.dumps({"wordings": FIRST}), []),
        (wordings_reply(*REWORDED)[:-1], []),
        ("[" * 100_000, []),
        ("7", []),
    ],
)
def test_read_wordings_drops_duplicates_and_changed_numbers(text, expected):
    assert list(read_wordings(text, QUESTION, 2)) == expected
