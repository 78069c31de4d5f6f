"""A reproducible run detects that it is resumed on another type of device or with other libraries."""

import json

import pytest
from factories.runs import (
    finish_run,
    make_config,
    make_questions,
    resume,
    spread_over_rooms,
    transcripts,
    truncate_log,
    walking_engine,
)

from render_agent.engines.transformers.make_transformers import Transformers
from render_agent.options import RunConfig
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.report.sentences.facts import request_facts
from render_agent.runs.inputs import add_machine, machine_note
from render_agent.runs.merge_shards import merge_shards
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

HERE = {"device": "GPU A", "driver": "570", "torch": "2.13"}
MODEL = {"engine": "transformers", "model": "small", "reproducible": "on"}
COUNT = 4


@pytest.fixture
def on_machine(monkeypatch):
    """Return a function that changes the machine of runs."""

    def change(**facts):
        machine = HERE | facts
        monkeypatch.setattr(Transformers, "machine", lambda self, config: machine)

    change()
    return change


def play(folder, question_file, count=COUNT, **options):
    """Run the questions as a model would; return the run folder."""
    run = start_run(make_config(folder, question_file, **MODEL, **options))
    finish_run(run, lambda config, questions: walking_engine(count))
    return run.path


def machine_facts(folder):
    facts = request_facts(folder.config, folder.results)
    return facts["Reproducible"], folder.results["reproducible"]


@pytest.mark.parametrize(
    "facts",
    [{"device": "GPU B"}, {"driver": "580"}, {"torch": "2.14"}],
    ids=lambda facts: next(iter(facts)),
)
def test_resuming_on_another_machine_is_a_caveat_everywhere(tmp_path, on_machine, facts, caplog):
    questions = make_questions(tmp_path, COUNT)
    path = play(tmp_path, questions)
    expected = transcripts(path)
    truncate_log(path, 3)
    on_machine(**facts)
    results = resume(path, walking_engine(COUNT))
    assert transcripts(path) == expected
    ((name, value),) = facts.items()
    (note,) = [note for note in results["notes"] if "bit-for-bit" in note]
    assert f"{name}: {HERE[name]}, then {value}" in note
    assert note in caplog.text
    assert results["reproducible"] is False
    folder = RunData(path)
    assert note in folder.saved_results["notes"]
    assert machine_facts(folder) == ("not bit-for-bit", False)
    (compared,) = compare_runs([folder, folder], anyway_option="")
    assert note in compared["notes"]["a"]


def test_resuming_on_the_same_machine_keeps_the_property(tmp_path, on_machine):
    path = play(tmp_path, make_questions(tmp_path, COUNT))
    before = (path / "config.json").read_bytes()
    truncate_log(path, 3)
    assert resume(path, walking_engine(COUNT))["reproducible"] is True
    assert (path / "config.json").read_bytes() == before
    assert machine_facts(RunData(path))[0].startswith("bit-for-bit")


def test_viewing_a_complete_run_on_another_machine_keeps_it_reproducible(tmp_path, on_machine):
    path = play(tmp_path, make_questions(tmp_path, COUNT))
    on_machine(device="GPU B")
    assert resume(path, walking_engine(COUNT))["reproducible"] is True


def test_shards_of_several_machines_are_merged_with_a_caveat(tmp_path, on_machine):
    questions = spread_over_rooms(make_questions(tmp_path, 8), 4)
    shards = []
    for part, device in ((1, "GPU A"), (2, "GPU A"), (3, "GPU B")):
        on_machine(device=device)
        shards.append(RunData(play(tmp_path, questions, 8, shard=f"{part}/3")))
    _, results = merge_shards(tmp_path / "merged", shards)
    assert results["reproducible"] is False
    assert any("GPU B" in note for note in results["notes"])


def test_machines_are_recorded_once_and_older_records_are_compared_partially():
    engine = {"reproducible": {"device": "a", "torch": "2"}}
    assert add_machine(engine, {"device": "a", "torch": "2", "threads": 4}) == engine
    once = add_machine(engine, {"device": "b", "torch": "2"})
    assert add_machine(once, {"device": "b", "torch": "2"}) == once
    assert add_machine(once, {"device": "a", "torch": "2"}) == once
    assert "device: a, then b" in machine_note(once)
    assert machine_note(engine) is None
    assert add_machine({}, {"device": "b"}) == {}, "not a reproducible run"


def test_config_records_the_machine_and_what_was_verified(tmp_path, on_machine):
    folder = RunData(play(tmp_path, make_questions(tmp_path, COUNT)))
    recorded = folder.record["engine"]["reproducible"]
    assert recorded.items() >= HERE.items()
    assert "bit for bit" in recorded["check"]


def test_ordinary_runs_do_not_claim_the_property():
    assert request_facts(RunConfig(), {})["Reproducible"] == "not bit-for-bit"
    assert "Reproducible" not in request_facts(RunConfig(engine="scripted"), {})


@pytest.mark.parametrize("workers", [1, 2])
def test_machine_of_a_cpu_includes_its_threads(workers):
    config = RunConfig(reproducible="on", device="cpu", workers=workers)
    machine = Transformers().machine(config)
    assert machine["threads"] >= 1
    assert {"device", "torch", "transformers"} <= machine.keys()
    assert json.loads(json.dumps(machine)) == machine
    assert Transformers().machine(RunConfig()) is None
