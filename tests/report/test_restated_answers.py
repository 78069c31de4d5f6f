"""Restated answers in pages, on the terminal and in exports."""

import json

import pytest
from factories.exports import export, json_lines
from factories.reports import build_index
from factories.runs import STEP, make_questions, play

from render_agent.dialogue.parsing.tool_calls import call_text
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.report.turn_text import turn_lines
from render_agent.runs.read import RunData

AGAIN = "B & C"  # no answer that can be read, and must be escaped


@pytest.fixture(scope="module", params=["json", "tools"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    reply = STEP
    if request.param == "tools":
        reply = call_text("look", {"rotation_angle_degrees": 30})
    engine = ScriptedEngine(ReplayPolicy({"1": (reply, reply, "B"), "0": (reply, reply, AGAIN)}))
    options = {"max_turns": 2, "reply_protocol": request.param}
    return play(folder, make_questions(folder, 2), engine, **options)[0]


def test_terminal_shows_the_reply_and_its_answer(run):
    lines = [list(turn_lines(run, state.turns[-1])) for state in RunData(run).states]
    assert [AGAIN in "\n".join(text) for text in lines] == [True, False]
    assert sum("B (B)" in line for line in lines[1]) == 1


def test_page_shows_the_request_and_the_reply(run):
    report = build_index(RunData(run)).parent
    for state in RunData(run).states:
        [page] = [p for p in report.rglob("*.html") if p.stem == state.id]
        text = page.read_text()
        [message] = state.turns[-1].restated.messages
        assert message["content"][0]["text"].rpartition(". ")[2] in text
        assert AGAIN not in text
        assert ("B &amp; C</pre>" in text) == (state.id == "0")


def test_exported_messages_include_the_request(run, tmp_path):
    export(run, "--format", "messages", "--to", tmp_path / "a.jsonl")
    for line, state in zip(json_lines(tmp_path / "a.jsonl"), RunData(run).states, strict=True):
        roles = [message["role"] for message in state.dialogue]
        assert [message["role"] for message in line["messages"]] == roles
        assert roles[-3:-2] == roles[-1:] == ["assistant"]
        assert line["messages"][-1]["content"][0]["text"] == state.turns[-1].restated.reply
        assert json.dumps(line["messages"][-2]) == json.dumps(state.turns[-1].restated.messages[-1])


def test_inspect_log_includes_the_request(run, tmp_path):
    log = pytest.importorskip("inspect_ai.log")
    export(run, "--format", "inspect", "--to", tmp_path / "a.json")
    samples = log.read_eval_log(str(tmp_path / "a.json")).samples
    for sample, state in zip(samples, RunData(run).states, strict=True):
        roles = [message["role"] for message in state.dialogue]
        assert [message.role for message in sample.messages] == roles
        assert sample.output.completion == state.turns[-1].restated.reply
