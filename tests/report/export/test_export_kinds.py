"""Tests of every export format with every kind of run: interrupted, failed, passive, blind, mirrored, single question."""

import json

import pytest
from conftest import mostly_slow
from factories.exports import export, json_lines, make_run
from factories.runs import SMALL, finish_run, make_questions
from pyarrow import parquet

from render_agent.dialogue.state import Status
from render_agent.options import RunConfig
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run


def interrupted(folder):
    """Return a killed run: question 0 has all its turns, question 1 has one, the others have none."""
    path = make_run(folder)
    lines = [json.loads(line) for line in (path / "turns.jsonl").read_text().splitlines()]
    kept_lines = [
        line
        for line in lines
        if line["question_id"] == "0" or (line["question_id"], line["turn"]) == ("1", 0)
    ]
    torn = json.dumps(lines[-1])[:40]
    text = "".join(json.dumps(line) + "\n" for line in kept_lines) + torn
    (path / "turns.jsonl").write_text(text)
    for name in ("results.json", "results.csv"):
        (path / name).unlink()
    return path


def failed(folder):
    """Return a run in which question 2 failed."""
    path = make_run(folder)
    lines = [json.loads(line) for line in (path / "turns.jsonl").read_text().splitlines()]
    last = next(
        n for n, line in enumerate(lines) if (line["question_id"], line["turn"]) == ("2", 2)
    )
    empty_fields = dict.fromkeys(
        name for name in lines[last] if name not in ("question_id", "turn", "phase", "events")
    )
    lines[last] |= empty_fields | {"views": [], "messages": [], "error": "EngineError: it is\ngone"}
    (path / "turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def single(folder):
    """Return a run of one question about one scan, without ground truth."""
    make_questions(folder, 1)
    options = {"ply": str(folder / "room.ply"), "question": "What is red?", "max_turns": 2}
    run = start_run(RunConfig(**SMALL | options | {"output": str(folder / "runs")}))
    finish_run(run)
    return run.path


DONE = ["answered"] * 4

# kind of run -> how to create it, and the expected statuses of its questions
KINDS = {
    "interrupted": (interrupted, ["answered", "active", "active", "active"]),
    "failed": (failed, ["answered", "answered", "failed", "answered"]),
    "passive": (lambda folder: make_run(folder, views="tour", max_turns=3), DONE),
    "blind": (lambda folder: make_run(folder, views="none"), DONE),
    "mirrored": (lambda folder: make_run(folder, image_stress="mirrored"), DONE),
    "single": (single, ["answered"]),
}


@pytest.mark.parametrize("kind", mostly_slow(KINDS, "interrupted", "failed", "blind"))
def test_every_format_accepts_the_run(tmp_path, kind):
    make, statuses = KINDS[kind]
    run = make(tmp_path)
    states = RunData(run).states
    assert [str(state.status) for state in states] == statuses
    states_with_turns = [state for state in states if state.turns]
    turns = sum(len(state.turns) for state in states)
    for form in ("messages", "csv", "parquet", "turns-csv", "turns-parquet", "inspect", "rerun"):
        ending = {"inspect": ".eval"}.get(form, "")
        export(run, "--format", form, "--to", tmp_path / f"{form}{ending}")
    lines = json_lines(tmp_path / "messages")
    assert [line["id"] for line in lines] == [state.id for state in states_with_turns]
    for line, state in zip(lines, states_with_turns, strict=True):
        roles = [message["role"] for message in line["messages"]]
        assert roles.count("assistant") == len(state.turns)
    rows = parquet.read_table(tmp_path / "parquet").to_pylist()
    assert [(row["question_id"], row["status"]) for row in rows] == [
        (state.id, str(state.status)) for state in states
    ]
    assert parquet.read_table(tmp_path / "turns-parquet").num_rows == turns
    read = pytest.importorskip("inspect_ai.log").read_eval_log(str(tmp_path / "inspect.eval"))
    active = any(state.active for state in states)
    assert read.status == ("cancelled" if active else "success")
    for sample, state, row in zip(read.samples, states, rows, strict=True):
        assert (sample.error is not None) == (state.status is Status.FAILED)
        scores = [score.value for score in (sample.scores or {}).values()]
        assert scores == ([] if row["score"] is None else [row["score"]])
    assert len(list((tmp_path / "rerun").glob("*.rrd"))) == len(states)
    for state in states_with_turns:
        recorded_turns = turns_recorded(tmp_path / "rerun" / f"{state.id}.rrd")
        assert recorded_turns == [turn.reply for turn in state.turns]


def turns_recorded(file):
    chunk = pytest.importorskip("rerun.chunk")
    return [
        texts[0]
        for part in chunk.RrdReader(file).stream()
        if part.entity_path == "/replies"
        for texts in part.to_record_batch().column("TextLog:text").to_pylist()
    ]
