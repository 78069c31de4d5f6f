"""In the last turn, an answer that cannot be read is requested once more, in its form and without new views."""

import json
from dataclasses import replace

import pytest
from factories.runs import (
    STEP,
    finish_run,
    make_config,
    make_questions,
    play,
    resume,
    transcripts,
    truncate_log,
)
from factories.servers import StubServer, chat_answers, chat_reply

from render_agent.dialogue.chat import image_files
from render_agent.dialogue.parsing.tool_calls import call_text
from render_agent.dialogue.wording import general
from render_agent.engines.engine import Reply
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

UNREADABLE = json.dumps({"answer": "to the left, or right", "done": True})
TURNS = {"max_turns": 2}


class RecordingEngine(ScriptedEngine):
    """Records its requests."""

    def answer(self, requests):
        self.asked = [*getattr(self, "asked", []), *requests]
        return super().answer(requests)


def engine_of(*replies, batch_size=64):
    return RecordingEngine(ReplayPolicy({"*": replies}), batch_size)


@pytest.fixture
def questions(tmp_path):
    return make_questions(tmp_path, 2)


def last_turns(path):
    return {state.id: state.turns[-1] for state in RunData(path).states}


def answers(path):
    return {state.id: (state.answer, str(state.status)) for state in RunData(path).states}


def test_server_that_ignores_the_schema_is_asked_once_more(tmp_path, questions):
    """Its second reply is scored, and the second request permits only the answer."""
    pytest.importorskip("openai", reason="the extra openai is not installed")

    def reply(body):
        permitted = body["response_format"]["json_schema"]["schema"]["properties"]
        return chat_reply("B." if permitted.keys() == {"answer"} else UNREADABLE)

    with StubServer(chat_answers(reply)) as server:
        options = {"engine": "openai", "model": "made", "base_url": (server.url,), "id": ("1",)}
        run = start_run(make_config(tmp_path, questions, **options, max_turns=1))
        results = finish_run(run)
    assert len(server.bodies) == 2
    (row,) = results["questions"]
    assert (row["answer"], row["score"]) == ("B", 1)
    assert results["counts"]["restated"] == 1


@pytest.mark.parametrize("reply", ["B", "3", '{"answer": "B"}', '{"answer": 3}', "B."])
def test_restated_answer_is_scored(tmp_path, questions, reply):
    path, results = play(tmp_path, questions, engine_of(STEP, UNREADABLE, reply), **TURNS)
    number = "3" in reply
    expected = {"0": "3" if number else None, "1": None if number else "B"}
    scores = {row["question_id"]: row["score"] for row in results["questions"]}
    for name, answer in expected.items():
        status = "answered" if answer else "exhausted"
        assert answers(path)[name] == (answer, status)
        assert scores[name] == (answer is not None)
    assert results["counts"]["restated"] == 1
    assert results["totals"]["events"]["restated"] == 2
    assert results["totals"]["turns"] == 4
    assert not RunData(path).file_notes  # the results fit the log


def test_request_continues_the_dialogue_without_new_views(tmp_path, questions):
    engine = engine_of(STEP, UNREADABLE, "B")
    path, _ = play(tmp_path, questions, engine, history="1", **TURNS)
    for name, turn in last_turns(path).items():
        *_, first, again = (request for request in engine.asked if request.question_id == name)
        assert (first.restates, again.restates) == (False, True)
        assert (again.dialogue_id, again.turn) == (first.dialogue_id, first.turn)
        assert again.messages[: len(first.messages)] == first.messages
        reply, *sent = again.messages[len(first.messages) :]
        assert reply["content"][0]["text"] == turn.reply == UNREADABLE
        assert tuple(sent) == turn.restated.messages
        assert image_files(sent) == []
        [piece] = sent[0]["content"]
        assert piece["text"].startswith(turn.feedback)
        form = "number" if name == "0" else "letter"
        assert piece["text"].endswith(general()(f"restate.{form}"))
        wanted = {"type": "number"} if name == "0" else {"type": "string", "enum": ["A", "B"]}
        assert again.schema["properties"] == {"answer": wanted}
        assert again.schema["required"] == ["answer"]
        assert again.seed != first.seed


def test_no_restate_asks_once(tmp_path, questions):
    engine = engine_of(STEP, UNREADABLE, "B")
    path, results = play(tmp_path, questions, engine, no_restate=True, **TURNS)
    assert len(engine.asked) == 4
    assert not any(request.restates for request in engine.asked)
    assert set(answers(path).values()) == {(None, "exhausted")}
    assert results["counts"]["restated"] == 0
    assert "restated" not in RunData(path).lines()[-1]


ANSWER = json.dumps({"answer": "A", "view": "ego"})


@pytest.mark.parametrize(
    ("last", "again", "expected"),
    [
        (STEP, None, ("A", "exhausted")),  # the earlier answer stands
        ("I see a box", None, ("A", "exhausted")),
        ('{"answer": null, "done": true}', None, ("A", "answered")),
        (UNREADABLE, "B", ("B", "answered")),
        (UNREADABLE, "who knows", ("A", "exhausted")),
        (UNREADABLE, '{"answer": null}', ("A", "exhausted")),
    ],
)
def test_earlier_answer_stands_unless_another_one_is_read(
    tmp_path, questions, last, again, expected
):
    engine = engine_of(ANSWER, last, again or "B")
    path, _ = play(tmp_path, questions, engine, id=("1",), **TURNS)
    assert any(request.restates for request in engine.asked) == (again is not None)
    assert answers(path) == {"1": expected}


@pytest.mark.parametrize("last", [STEP, "", "I see a box", '{"done": true}', '{"answer": "'])
def test_any_last_reply_without_answer_is_followed_by_the_request(tmp_path, questions, last):
    path, _ = play(tmp_path, questions, engine_of(last, "B"), id=("1",), max_turns=1)
    assert answers(path) == {"1": ("B", "answered")}
    assert RunData(path).states[0].answer_text == "B"


def test_tokens_calls_and_time_of_the_request_count(tmp_path, questions):
    options = {"id": ("1",), "max_turns": 1}
    plain = play(tmp_path, questions, engine_of(STEP, "B"), no_restate=True, **options)[1]
    engine = engine_of(STEP, "B")
    results = play(tmp_path, questions, engine, **options)[1]
    words = sum(
        len(piece.get("text", "").split())
        for message in engine.asked[-1].messages
        for piece in message["content"]
    )
    before, after = plain["totals"], results["totals"]
    assert after["tokens"]["in"] == before["tokens"]["in"] + words
    assert after["tokens"]["out"] == before["tokens"]["out"] + 1
    assert after["calls"] == before["calls"] + 1


class StopsAtRequest(RecordingEngine):
    """Fails as a crash does, between the two requests of a turn."""

    def answer(self, requests):
        if any(request.restates for request in requests):
            raise KeyboardInterrupt
        return super().answer(requests)


def test_run_stopped_between_the_two_requests_repeats_the_turn(tmp_path, questions):
    replies = STEP, UNREADABLE, "B"
    whole, results = play(tmp_path, questions, engine_of(*replies), **TURNS)
    policy = ReplayPolicy({"*": replies})
    run = start_run(make_config(tmp_path, questions, **TURNS))
    with pytest.raises(KeyboardInterrupt):
        finish_run(run, lambda config, questions: StopsAtRequest(policy))
    assert len(RunData(run.path).turns) == 2
    resumed = resume(run.path, engine_of(*replies, batch_size=1))
    assert transcripts(run.path) == transcripts(whole)
    assert restated(run.path) == restated(whole)
    assert resumed["counts"] == results["counts"]


def restated(path):
    fields = ("messages", "reply", "answer", "answer_text", "finish")
    return {
        name: {field: getattr(turn.restated, field) for field in fields}
        for name, turn in last_turns(path).items()
    }


def test_truncated_log_resumes_with_the_same_restated_answers(tmp_path, questions):
    replies = STEP, UNREADABLE, "B"
    whole, _ = play(tmp_path, questions, engine_of(*replies), **TURNS)
    expected = transcripts(whole), restated(whole)
    for lines in (1, 3):
        truncate_log(whole, lines)
        resume(whole, engine_of(*replies))
        assert (transcripts(whole), restated(whole)) == expected


def test_tools_protocol_sends_the_request_as_result_of_the_call(tmp_path, questions):
    call = call_text("answer", {"answer": "to the left, or right", "done": True})
    answer = call_text("answer", {"answer": "B"})
    for reply in (answer, "B"):
        engine = engine_of(call, reply)
        path, _ = play(tmp_path, questions, engine, reply_protocol="tools", id=("1",), max_turns=1)
        assert answers(path) == {"1": ("B", "answered")}
        again = engine.asked[-1]
        said, result = again.messages[-2:]
        assert (said["role"], result["role"]) == ("assistant", "tool")
        assert result["tool_call_id"] == said["tool_calls"][0]["id"]
        [tool] = again.tools
        assert tool["function"]["name"] == "answer"
        assert tool["function"]["parameters"]["properties"] == {
            "answer": {"type": "string", "enum": ["A", "B"]}
        }
        assert again.schema is None


class Blocks(RecordingEngine):
    """Returns each reply with content that its API requires back."""

    def answer(self, requests):
        blocks = [{"type": "thinking", "thinking": "left", "signature": "s"}]
        return [replace(reply, blocks=(tuple(blocks),)) for reply in super().answer(requests)]


def test_thinking_blocks_are_sent_back(tmp_path, questions):
    engine = Blocks(ReplayPolicy({"*": (UNREADABLE, "B")}))
    play(tmp_path, questions, engine, id=("1",), max_turns=1)
    assert engine.asked[-1].messages[-2]["blocks"][0]["signature"] == "s"


class Samples:
    """Gives different replies to the samples of a request."""

    def __init__(self, samples, again):
        self.all, self.again = samples, again

    def reply(self, request):
        return self.again if request.restates else self.all[0]

    def samples(self, request):
        return [self.again] if request.restates else self.all[: request.num_samples]


@pytest.mark.parametrize("agent", ["vote:3", "lookahead:3", "show:3"])
@pytest.mark.parametrize("has_answer", [False, True])
def test_agents_choose_before_the_request(tmp_path, questions, agent, has_answer):
    samples = [UNREADABLE, "I see a box", ANSWER if has_answer else STEP]
    engine = RecordingEngine(Samples(samples, "B"))
    options = {"agent": agent, "temperature": 1.0, "id": ("1",), "max_turns": 1}
    path, results = play(tmp_path, questions, engine, **options)
    [turn] = last_turns(path).values()
    assert answers(path)["1"][0] == ("A" if has_answer else "B")
    requests = [request.num_samples for request in engine.asked if request.restates]
    assert requests == ([] if has_answer else [1])
    assert results["totals"]["calls"] == len(engine.asked)
    if not has_answer:
        assert turn.restated.messages[-1]["content"][0]["text"].startswith(turn.feedback)


def test_failure_of_the_request_fails_the_question_and_is_retried(tmp_path, questions):
    class Fails(RecordingEngine):
        def answer(self, requests):
            replies = super().answer(requests)
            return [
                Reply(error="overloaded") if request.restates else reply
                for request, reply in zip(requests, replies, strict=True)
            ]

    policy = ReplayPolicy({"*": (UNREADABLE, "B")})
    path, results = play(tmp_path, questions, Fails(policy), id=("1",), max_turns=1)
    assert results["counts"]["failed"] == 1
    assert RunData(path).states[0].turns == []
    resume(path, RecordingEngine(policy))
    assert answers(path) == {"1": ("B", "answered")}
