"""What a run records of how its moves are chosen, and what follows from it."""

import json
import shutil

import pytest
import yaml
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_config, make_questions, play

from render_agent.cli.main import cli
from render_agent.engines.scripted import ScriptedEngine
from render_agent.engines.scripted.blind_policies import Wanderer
from render_agent.errors import SetupError
from render_agent.runs.build import build
from render_agent.runs.preflight import input_hashes
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run

SCENES = TREE / "scenes"

LOOKAHEAD = {"agent": "lookahead:2", "temperature": 1.0, "max_turns": 2, "model": "wanderer"}


def room(folder):
    """Write the questions about one bundled room beside a copy of it; return their file."""
    for name in ("room07.ply", "room07.json"):
        shutil.copy(SCENES / name, folder / name)
    rows = (SCENES / "questions.jsonl").read_text("utf-8").splitlines(keepends=True)
    file = folder / "questions.jsonl"
    file.write_text("".join(row for row in rows if '"room07"' in row), "utf-8")
    return file


def begun(config):
    """Begin a run and leave it; return its folder."""
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
        ({"pictures": "shuffled", "benchmark": "rooms", "limit": 40}, None),
        ({"agent": "vote:2"}, None),
        ({"agent": "single", "temperature": 0.0}, None),
    ],
    ids=str,
)
def test_what_no_model_knows_is_said_beside_every_figure(tmp_path, options, note):
    config = make_config(tmp_path, room(tmp_path), **{"limit": 2, **LOOKAHEAD, **options})
    folder = begun(config)
    told = folder.record["choosing"]
    assert (told["agent"], told["note"]) == (config.agent, note)
    assert (note in folder.results["notes"]) == (note is not None)
    assert [entry["name"] for entry in told["verifiers"]] == [
        v.label for v in build(config).verifiers
    ]


def test_where_no_box_is_known_geometry_knows_none(tmp_path):
    folder = begun(make_config(tmp_path, make_questions(tmp_path, 2), **LOOKAHEAD))
    assert folder.record["choosing"]["verifiers"] == [{"name": "geometry", "knows": None}]
    assert folder.record["choosing"]["note"] is None


@pytest.mark.parametrize(
    ("verifier", "refused"),
    [(("geometry",), True), (("random", "geometry"), True), (("geometry:unnamed",), False)],
)
def test_boxes_that_changed_are_refused_where_moves_rest_on_them(tmp_path, verifier, refused):
    folder = begun(make_config(tmp_path, room(tmp_path), limit=2, **LOOKAHEAD, verifier=verifier))
    resume_run(folder, {}).close()
    truth = tmp_path / "room07.json"
    truth.write_text(truth.read_text("utf-8") + "\n", "utf-8")
    if not refused:
        resume_run(RunData(folder.path), {}).close()
        return
    with pytest.raises(SetupError, match=r"room07\.json is not the file of boxes") as raised:
        resume_run(RunData(folder.path), {})
    assert "\n" not in str(raised.value)


def test_a_rubric_of_ones_own_is_among_the_files_that_must_stay(tmp_path):
    rubric = tmp_path / "mine.yaml"
    rubric.write_text(
        yaml.safe_dump(
            {"name": "mine", "introduction": "Judge.", "criteria": {"seen": {"text": "Is it?"}}}
        )
    )
    given = {**LOOKAHEAD, "rubric": str(rubric), "verifier": ("judge",), "engine": "openai"}
    given |= {"model": "some", "judge_mode": "json", "base_url": "http://127.0.0.1:9/v1"}
    config = make_config(tmp_path, make_questions(tmp_path, 2), **given)
    assert input_hashes(build(config), [])["verifiers"].keys() == {str(rubric)}


def test_files_of_a_learned_verifier_that_changed_are_refused(tmp_path):
    learned = tmp_path / "learned"
    learned.mkdir()
    for name in ("members.safetensors", "card.json", "README.md"):
        (learned / name).write_text(name)
    config = make_config(
        tmp_path,
        make_questions(tmp_path, 2),
        **{**LOOKAHEAD, "agent": "best:2", "verifier": (f"learned:{learned}",)},
    ).absolute()
    recorded = input_hashes(build(config), [])["verifiers"]
    assert recorded.keys() == {str(learned / "members.safetensors"), str(learned / "card.json")}
    folder = begun(make_config(tmp_path, make_questions(tmp_path, 2)))
    written = json.loads((folder.path / "config.json").read_text("utf-8"))
    written["sha256"]["verifiers"] = recorded
    written |= {"config": config.to_json(), "fingerprint": config.fingerprint}
    (folder.path / "config.json").write_text(json.dumps(written), "utf-8")
    resume_run(RunData(folder.path), {}).close()
    (learned / "README.md").write_text("somebody's words")
    resume_run(RunData(folder.path), {}).close()
    (learned / "members.safetensors").write_text("other weights")
    with pytest.raises(SetupError, match=r"members\.safetensors"):
        resume_run(RunData(folder.path), {})
    (learned / "members.safetensors").unlink()
    with pytest.raises(SetupError, match=r"members\.safetensors"):
        resume_run(RunData(folder.path), {})


def wandering(folder, asked, **options):
    config = make_config(folder, asked, **options)
    return play(folder, asked, ScriptedEngine(Wanderer(build(config).questions(), 0)), **options)[0]


def test_compared_runs_tell_what_they_cost_and_which_options_differ(tmp_path):
    asked = make_questions(tmp_path, 4)
    one = wandering(tmp_path, asked, **{**LOOKAHEAD, "agent": "single"})
    two = wandering(tmp_path, asked, **{**LOOKAHEAD, "verifier": ("random",), "batch_size": "2"})
    done = CliRunner().invoke(cli, ["compare", str(one), str(two), "--json"])
    told = json.loads(done.stdout)
    assert told["options"] == {"agent": ["single", "lookahead:2"], "verifier": [[], ["random"]]}
    work = [RunData(path).results["totals"]["per_question"] for path in (one, two)]
    assert told["work"] == {"a": work[0], "b": work[1]}


def test_a_question_tells_what_was_drawn_and_read_for_it(tmp_path):
    asked = make_questions(tmp_path, 4)
    path = wandering(tmp_path, asked, **{**LOOKAHEAD, "verifier": ("random",), "max_turns": 3})
    folder = RunData(path)
    results = folder.saved_results
    lines = folder.lines()
    opening = {view["file"] for line in lines if not line["turn"] for view in line["views"]}
    assert len(opening) == 2
    for row in results["questions"]:
        own = [line for line in lines if line["question_id"] == row["question_id"]]
        beside = list((path / "views" / row["question_id"]).iterdir())
        assert row["renders"] == len(opening) + len(beside)
        assert row["tokens_in"] == sum(line["tokens"]["in"] for line in own)
        assert row["tokens_out"] == sum(line["tokens"]["out"] for line in own)
    totals = results["totals"]
    means = totals["per_question"]
    assert means["renders"] == sum(row["renders"] for row in results["questions"]) / 4
    assert totals["renders"] == sum(row["renders"] for row in results["questions"]) - 3 * 2
    shown = CliRunner().invoke(cli, ["show", str(path)]).output
    assert "lookahead:2 by random" in shown
    assert f"{means['renders']:.1f} pictures" in " ".join(shown.split())
