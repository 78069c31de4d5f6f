"""Caveats: unreadable replies with their cause, adapted requests, faults of servers; in every output."""

import csv
import io
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from factories.runs import finish_run, make_config, make_questions
from factories.servers import StubServer, chat_answers, chat_reply
from factories.states import question, turn
from msgspec.structs import replace
from rich.console import Console

import render_agent
from render_agent.dialogue.beliefs import Belief
from render_agent.dialogue.events import (
    CONTENT_FILTER,
    JUDGE,
    NO_USAGE,
    OMITTED,
    PROMPT_TRUNCATED,
    RENAMED,
    SYSTEM_IN_USER,
)
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Probe
from render_agent.parts.beliefs.belief_figures import summarize_beliefs
from render_agent.parts.beliefs.part import unreadable_probes
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.runs.log.caveats import (
    adapted_fields,
    caveats,
    scene_kinds,
    unreadable_caveat,
)
from render_agent.runs.progress import Progress
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.util.display import Display

DONE = json.dumps({"answer": "A", "done": True})


def unreadable_turn(reply="", finish="stop", events=()):
    base_turn = turn(0, Malformed("there is no JSON object"))
    return replace(base_turn, reply=reply, finish=finish, events=events)


def readable_turn(*events):
    return replace(turn(0, Action(forward=1.0)), events=events)


def test_half_of_the_replies_may_be_unreadable_without_a_caveat():
    assert unreadable_caveat([]) is None
    assert unreadable_caveat([unreadable_turn(), readable_turn()]) is None
    assert "2 of 3" in unreadable_caveat([unreadable_turn(), readable_turn(), unreadable_turn()])


@pytest.mark.parametrize(
    ("reply", "finish", "events", "expected"),
    [
        ("<think>hm", "length", (), ["token limit", "--max-new-tokens", "--thinking-budget"]),
        ("<think>hm</think>\n", "stop", (), ["only of thinking", "--max-new-tokens"]),
        ("<think>hm</think>\n", "length", (), ["token limit", "--thinking-budget"]),
        ('{"reasoning": "I', "length", (), ["token limit", "--max-new-tokens"]),
        ("", "stop", (), ["empty"]),
        ("", "stop", (CONTENT_FILTER,), ["content filter"]),
        ("I would say B", "stop", (), ["there is no JSON object"]),
    ],
)
def test_cause_and_remedy_are_named(reply, finish, events, expected):
    caveat = unreadable_caveat(
        [unreadable_turn(reply, finish, events)] * 2 + [unreadable_turn("?")]
    )
    assert caveat.startswith("3 of 3 replies are unreadable")
    assert all(text in caveat for text in expected)


def test_events_become_caveats_with_their_number_of_turns():
    turns = [
        readable_turn(OMITTED + "temperature", NO_USAGE),
        readable_turn(OMITTED + "temperature"),
        readable_turn("retried"),
    ]
    temperature, tokens = sorted(caveats(turns))
    assert "temperature not sent" in temperature
    assert "2 of 3 turns" in temperature
    assert "tokens: not reported" in tokens
    assert "1 of 3 turns" in tokens


def probed_turn(belief, *events, **fields):
    probe = Probe("Where is it?", belief=belief, events=events, **fields)
    return replace(turn(0, Action(forward=1.0)), probe=probe)


def test_events_of_verifiers_and_probes_are_counted_apart():
    """Regression test: events of belief probes and of a judge's requests were in no caveat."""
    with_judge = readable_turn(JUDGE + OMITTED + "temperature", JUDGE + NO_USAGE)
    with_probe = probed_turn(Belief(), OMITTED + "temperature", NO_USAGE)
    notes = caveats([with_judge, with_probe, readable_turn()])
    assert sum(note.startswith("requests of the verifier: ") for note in notes) == 2
    assert sum(note.endswith("(1 of 1 belief probes)") for note in notes) == 2
    assert adapted_fields([with_judge, with_probe]) == {}
    (note,) = caveats([replace(with_probe, events=(OMITTED + "temperature",))])[:1]
    assert note.endswith("(1 of 1 turns, 1 of 1 belief probes)")


def test_unreadable_probes_are_a_caveat():
    lost_probe = probed_turn(Malformed("there is no JSON object"), reply="no")
    (note,) = caveats([lost_probe, lost_probe, probed_turn(Belief())])
    assert note.startswith("2 of 3 belief probes are unreadable: most frequent reason: there is no")
    truncate_log = probed_turn(Malformed("cut off"), reply="{", finish="length")
    assert unreadable_probes([]) is None
    assert "token limit" in unreadable_probes([truncate_log.probe])
    thought = replace(truncate_log.probe, reply="<think>hm")
    for cut_probe, option in ((truncate_log.probe, "--probe"), (thought, "--thinking-budget")):
        caveat = unreadable_probes([cut_probe])
        assert option in caveat
        assert "--max-new-tokens" not in caveat, "it does not apply to probes"
    assert "refused" in unreadable_probes([Probe("?", error="refused")])
    assert unreadable_probes([lost_probe.probe, Probe("?", belief=Belief())]) is None


def test_unreadable_probes_are_not_reported_as_missing_boxes():
    """Regression test: unreadable probes were reported as scenes without object boxes."""
    probes = {"asked": 54, "unreadable": 50, "failed": 4}
    text = summarize_beliefs({"last": {"readable": {"value": 0.0, "n": 9}}}, probes)
    assert "none of the 54 replies" in text
    text = summarize_beliefs({"last": {}}, {**probes, "unreadable": 0})
    assert "no object boxes" in text


def test_adaptations_without_consequences_are_recorded_without_a_caveat():
    turns = [readable_turn(RENAMED, OMITTED + "n", SYSTEM_IN_USER)]
    assert adapted_fields(turns).keys() == {"max_tokens", "n", "system message"}
    assert len(caveats(turns)) == 1


def warnings_of(turns):
    state = QuestionState(question(), scenes=None, max_turns=99)
    display = Display(Console(file=io.StringIO(), width=1000))
    progress = Progress([state], display, max_batched_turns=1)
    for number, each_turn in enumerate(turns):
        state.take(replace(each_turn, number=number))
        progress.on_turn(state, state.turns[-1])
    warned = display.console.file.getvalue().splitlines()
    return [line for line in warned if line.startswith("warning")]


def test_progress_warns_once_while_most_replies_are_unreadable():
    assert warnings_of([unreadable_turn()] * 2) == []
    (line,) = warnings_of([unreadable_turn()] * 9)
    assert "3 of 3 replies" in line
    assert (
        warnings_of([readable_turn(), unreadable_turn(), readable_turn(), unreadable_turn()] * 5)
        == []
    )


def test_progress_warns_once_about_every_kind_of_event():
    first, second = warnings_of([readable_turn(OMITTED + "seed", "retried", PROMPT_TRUNCATED)] * 3)
    assert "seed" in first
    assert "prompt tokens" in second


needs_openai = pytest.mark.skipif(
    find_spec("openai") is None, reason="the extra openai is not installed"
)


def run_on_server(folder, rule, **options):
    """Run two questions over a server; return the run folder and the results."""

    def answer(method, path, body):
        if not path.endswith("/chat/completions"):
            return chat_answers(chat_reply)(method, path, body)
        return rule(json.loads(body))

    folder.mkdir(exist_ok=True)
    with StubServer(answer) as server:
        options = {"engine": "openai", "model": "made", "base_url": (server.url,), **options}
        run = start_run(make_config(folder, make_questions(folder, 2), max_turns=2, **options))
        return run.path, finish_run(run)


def only_default_temperature(body):
    if "temperature" in body:
        return 400, {}, b'{"error": {"message": "temperature must be 1", "param": "temperature"}}'
    return 200, {}, chat_reply(DONE)


@needs_openai
def test_adapted_field_is_in_every_output(type_in, tmp_path):
    path, results = run_on_server(tmp_path / "a", only_default_temperature)
    turns = results["totals"]["turns"]
    assert results["adapted"] == {"temperature": {"how": "not sent", "turns": turns}}
    saved = json.loads((path / "results.json").read_text())
    assert saved["adapted"] == results["adapted"]
    (caveat,) = [note for note in saved["notes"] if "temperature not sent" in note]
    unadapted, _ = run_on_server(tmp_path / "b", lambda body: (200, {}, chat_reply(DONE)))
    (pair,) = compare_runs([RunData(unadapted), RunData(path)], anyway_option="")
    assert pair["adapted"] == {"a": {}, "b": results["adapted"]}
    for command in (("show", path), ("compare", unadapted, path)):
        code, out, err = type_in(*command, folder=tmp_path)
        assert code == 0, err
        assert "temperature not sent" in " ".join((out + err).split())
    code, _, err = type_in("report", path, folder=tmp_path)
    assert code == 0, err
    assert caveat.replace("'", "&#39;") in (path / "report" / "index.html").read_text()


@needs_openai
def test_unreadable_run_says_so_in_its_results(tmp_path):
    message = {"role": "assistant", "content": None, "reasoning_content": DONE}
    choices = [{"message": message, "finish_reason": "length"}]
    _, results = run_on_server(
        tmp_path / "a", lambda body: (200, {}, chat_reply("", choices=choices))
    )
    assert "4 of 4 replies are unreadable" in results["notes"][0]
    assert "--max-new-tokens" in results["notes"][0]
    assert "adapted" not in results


@needs_openai
def test_missing_token_counts_are_not_shown_as_zero(type_in, tmp_path):
    path, results = run_on_server(tmp_path, lambda body: (200, {}, chat_reply(DONE, usage=None)))
    assert any(note.startswith("tokens: not reported") for note in results["notes"])
    assert set(results["totals"]["tokens"].values()) == {None}
    assert results["totals"]["per_question"]["tokens_in"] is None
    assert {row["tokens_out"] for row in results["questions"]} == {None}
    saved = json.loads((path / "results.json").read_text())
    assert saved["totals"]["tokens"] == results["totals"]["tokens"]
    (row, *_) = csv.DictReader((path / "results.csv").read_text().splitlines())
    assert row["tokens_in"] == ""
    assert RunData(path).saved_results["questions"][0]["tokens_in"] is None
    frame = render_agent.load_run(path).questions
    assert frame.tokens_in.isna().all()
    saved["questions"][0]["tokens_in"] = saved["totals"]["tokens"]["in"] = 0  # older versions
    (path / "results.json").write_text(json.dumps(saved))
    assert RunData(path).saved_results["totals"]["tokens"]["in"] == 0
    code, _, err = type_in("report", path, "--no-diagnosis", folder=tmp_path)
    assert code == 0, err
    assert "tokens: not reported" in (path / "report" / "index.html").read_text()
    code, out, _ = type_in("show", path, folder=tmp_path)
    text = " ".join(out.split())
    assert code == 0
    assert text.count("tokens: not reported") == 2
    assert "input tokens" not in text


@needs_openai
@pytest.mark.parametrize("batch", [True, False])
def test_unreadable_run_warns_while_running_and_at_its_end(type_in, tmp_path, batch):
    message = {"role": "assistant", "content": None, "reasoning_content": DONE}
    body = chat_reply("", choices=[{"message": message, "finish_reason": "length"}])
    questions = make_questions(tmp_path, 2)
    arguments = ("--batch", "--questions", questions, "--views", "none")
    if not batch:
        room = Path(render_agent.__file__).parent / "bundled" / "room00.ply"
        arguments = ("--ply", room, "--question", "How many chairs are there?")
    with StubServer(chat_answers(lambda _: body)) as server:
        engine = ("--engine", "openai", "--model", "made", "--base-url", server.url)
        code, out, err = type_in(*arguments, *engine, "--max-turns", 4, folder=tmp_path)
    assert code == 0
    printed = " ".join((out + err).split())
    assert "warning: 3 of 3 replies are unreadable" in printed
    total = 8 if batch else 4
    assert f"{total} of {total} replies are unreadable" in printed.partition("run folder")[2]
    assert printed.count("--max-new-tokens") >= 2


def test_scenes_that_share_an_annotation_file_count_each():
    scans = Path("scannet_meta_info_val.json"), Path("scannet_meta_info_val.json"), None
    questions = [question(scene=f"scene{n}", scan=scan) for n, scan in enumerate(scans)]
    assert scene_kinds(questions) == {"scans": 0, "annotations": 2, "missing": 1}
