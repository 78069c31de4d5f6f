"""The metadata of agents and verifiers in run records."""

import json
import shutil

import pytest
import yaml
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_config, make_questions, play

from render_agent.cli.main import cli
from render_agent.engines.scripted import ScriptedEngine
from render_agent.engines.scripted.blind_policies import WandererPolicy
from render_agent.errors import SetupError
from render_agent.runs.build import build
from render_agent.runs.inputs import input_hashes
from render_agent.runs.preflight import prompt_digest
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

SCENES = TREE / "scenes"

LOOKAHEAD = {"agent": "lookahead:2", "temperature": 1.0, "max_turns": 2, "model": "wanderer"}


def copy_room(folder):
    """Copy one bundled room with its questions; return the question file."""
    for name in ("room07.ply", "room07.json"):
        shutil.copy(SCENES / name, folder / name)
    rows = (SCENES / "questions.jsonl").read_text("utf-8").splitlines(keepends=True)
    file = folder / "questions.jsonl"
    file.write_text("".join(row for row in rows if '"room07"' in row), "utf-8")
    return file


def start_and_close(config):
    """Start a run and close it immediately; return its data."""
    run = start_run(config)
    run.close()
    return RunData(run.path)


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({}, "agent: lookahead:2 by geometry (knows where the named objects are)"),
        (
            {"verifier": ("random", "geometry")},
            "agent: lookahead:2 by random, geometry (knows where the named objects are)",
        ),
        ({"verifier": ("geometry:unnamed",)}, None),
        ({"verifier": ("random",)}, None),
        ({"image_stress": "shuffled", "benchmark": "rooms", "limit": 40}, None),
        ({"agent": "vote:2"}, None),
        ({"agent": "single", "temperature": 0.0}, None),
    ],
    ids=str,
)
def test_privileged_verifiers_are_noted_in_results(tmp_path, options, note):
    config = make_config(tmp_path, copy_room(tmp_path), **{"limit": 2, **LOOKAHEAD, **options})
    folder = start_and_close(config)
    record = folder.record["choosing"]
    assert (record["agent"], record["note"]) == (config.agent, note)
    assert (note in folder.results["notes"]) == (note is not None)
    assert [entry["name"] for entry in record["verifiers"]] == [
        v.label for v in build(config).verifiers
    ]


def test_geometry_without_boxes_has_no_note(tmp_path):
    folder = start_and_close(make_config(tmp_path, make_questions(tmp_path, 2), **LOOKAHEAD))
    assert folder.record["choosing"]["verifiers"] == [{"name": "geometry", "knows": None}]
    assert folder.record["choosing"]["note"] is None


@pytest.mark.parametrize(
    ("verifier", "uses_boxes"),
    [(("geometry",), True), (("random", "geometry"), True), (("geometry:unnamed",), False)],
)
def test_changed_boxes_prevent_resuming_if_used(tmp_path, verifier, uses_boxes):
    folder = start_and_close(
        make_config(tmp_path, copy_room(tmp_path), limit=2, **LOOKAHEAD, verifier=verifier)
    )
    resume_run(folder, {}).close()
    truth = tmp_path / "room07.json"
    truth.write_text(truth.read_text("utf-8") + "\n", "utf-8")
    if not uses_boxes:
        resume_run(RunData(folder.path), {}).close()
        return
    with pytest.raises(SetupError, match=r"room07\.json") as raised:
        resume_run(RunData(folder.path), {})
    assert "\n" not in str(raised.value)


def test_custom_rubric_is_hashed(tmp_path):
    rubric = tmp_path / "mine.yaml"
    rubric.write_text(
        yaml.safe_dump(
            {"name": "mine", "introduction": "Judge.", "criteria": {"seen": {"text": "Is it?"}}}
        )
    )
    options = {**LOOKAHEAD, "rubric": str(rubric), "verifier": ("judge",), "engine": "openai"}
    options |= {"model": "some", "judge_mode": "json", "base_url": "http://127.0.0.1:9/v1"}
    config = make_config(tmp_path, make_questions(tmp_path, 2), **options)
    assert input_hashes(build(config), [])["verifiers"].keys() == {str(rubric)}


def test_changed_learned_verifier_prevents_resuming(tmp_path):
    learned = tmp_path / "learned"
    learned.mkdir()
    for name in ("members.safetensors", "card.json", "README.md"):
        (learned / name).write_text(name)
    config = make_config(
        tmp_path,
        make_questions(tmp_path, 2),
        **{**LOOKAHEAD, "agent": "best:2", "verifier": (f"learned:{learned}",)},
    ).absolute()
    parts = build(config)
    hashes = input_hashes(parts, [])["verifiers"]
    assert hashes.keys() == {str(learned / "members.safetensors"), str(learned / "card.json")}
    folder = start_and_close(make_config(tmp_path, make_questions(tmp_path, 2)))
    record = json.loads((folder.path / "config.json").read_text("utf-8"))
    record["sha256"] |= {"verifiers": hashes, "prompt": prompt_digest(parts)}
    record |= {"config": config.to_json(), "fingerprint": config.fingerprint}
    (folder.path / "config.json").write_text(json.dumps(record), "utf-8")
    resume_run(RunData(folder.path), {}).close()
    (learned / "README.md").write_text("edited")
    resume_run(RunData(folder.path), {}).close()
    (learned / "members.safetensors").write_text("other weights")
    with pytest.raises(SetupError, match=r"members\.safetensors"):
        resume_run(RunData(folder.path), {})
    (learned / "members.safetensors").unlink()
    with pytest.raises(SetupError, match=r"members\.safetensors"):
        resume_run(RunData(folder.path), {})


def run_wanderer(folder, questions, **options):
    config = make_config(folder, questions, **options)
    engine = ScriptedEngine(WandererPolicy(build(config).questions(), 0))
    return play(folder, questions, engine, **options)[0]


def test_compare_reports_costs_and_different_options(tmp_path):
    questions = make_questions(tmp_path, 4)
    options = LOOKAHEAD | {"verifier": ("random",), "batch_size": "2"}
    a = run_wanderer(tmp_path, questions, **LOOKAHEAD | {"agent": "single"})
    b = run_wanderer(tmp_path, questions, **options)
    result = CliRunner().invoke(cli, ["compare", str(a), str(b), "--json"])
    comparison = json.loads(result.stdout)
    agents, verifiers = ["single", "lookahead:2"], [[], ["random"]]
    assert comparison["options"] == {"agent": agents, "verifier": verifiers}
    work = [RunData(path).results["totals"]["per_question"] for path in (a, b)]
    assert comparison["work"] == {"a": work[0], "b": work[1]}


def test_results_count_renders_and_tokens_per_question(tmp_path):
    questions = make_questions(tmp_path, 4)
    options = LOOKAHEAD | {"verifier": ("random",), "max_turns": 3}
    path = run_wanderer(tmp_path, questions, **options)
    folder = RunData(path)
    results = folder.saved_results
    lines = folder.lines()
    opening = {view["file"] for line in lines if not line["turn"] for view in line["views"]}
    assert len(opening) == 2
    for row in results["questions"]:
        turns = [line for line in lines if line["question_id"] == row["question_id"]]
        images = list((path / "views" / row["question_id"]).iterdir())
        assert row["renders"] == len(opening) + len(images)
        assert row["tokens_in"] == sum(line["tokens"]["in"] for line in turns)
        assert row["tokens_out"] == sum(line["tokens"]["out"] for line in turns)
    totals = results["totals"]
    means = totals["per_question"]
    assert means["renders"] == sum(row["renders"] for row in results["questions"]) / 4
    assert totals["renders"] == sum(row["renders"] for row in results["questions"]) - 3 * 2
    output = CliRunner().invoke(cli, ["show", str(path)]).output
    assert "lookahead:2 by random" in output
    assert f"{means['renders']:.1f}" in output
