"""End-to-end runs of VSI-Bench's questions: with data-set trees, and with rooms built from annotations."""

import io
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from conftest import test_data
from factories.runs import SMALL, finish_run, transcripts
from factories.scenes import room, write_ply
from rich.console import Console

from render_agent.cli.dry_run import dry_run
from render_agent.errors import SetupError
from render_agent.options import RunConfig
from render_agent.runs.build import make_engine
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent.scans.formats.load import load_scene
from render_agent.score.tables import score_table

TREE = {
    "scannet": "scans/{id}/{id}_vh_clean_2.ply",
    "scannetpp": "data/{id}/scans/mesh_aligned_0.05.ply",
    "arkitscenes": "Validation/{id}/{id}_3dod_mesh.ply",
}
QUARTER = "axisAlignment = 0 -1 0 0 1 0 0 0 0 0 1 0 0 0 0 1\n"


def write_scan(root, dataset, scene):
    scan = root / dataset / TREE[dataset].format(id=scene)
    scan.parent.mkdir(parents=True)
    write_ply(scan, *room())
    return scan


def write_questions(root, scenes, per_scene=2):
    """Write `per_scene` questions about every (data set, scene); return their file."""
    rows = [
        {
            "id": f"{scene}-{number}", "dataset": dataset, "scene_name": scene,
            "question_type": "object_counting", "question": "How many box(s) are in this room?",
            "options": None, "ground_truth": "3", "pruned": bool(number),
        }
        for dataset, scene in scenes
        for number in range(per_scene)
    ]  # fmt: skip
    path = root / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def options(root, questions, **changes):
    defaults = {
        "batch": True, "questions": str(questions), "output": str(root / "runs"), "max_turns": 2,
        **{name: (str(root / name),) for name in TREE if (root / name).is_dir()},
    }  # fmt: skip
    return RunConfig(**defaults | SMALL | changes)


def play(config):
    run = start_run(config)
    results = finish_run(run, make_engine)
    return run, results


SCENES = [("scannet", "scene0011_00"), ("scannetpp", "5942004064"), ("arkitscenes", "41069021")]


def test_run_over_trees_of_all_three_data_sets(tmp_path):
    scans = {scene: write_scan(tmp_path, dataset, scene) for dataset, scene in SCENES}
    rotated = scans["scene0011_00"]
    rotated.with_name("scene0011_00.txt").write_text(QUARTER)
    run, results = play(options(tmp_path, write_questions(tmp_path, SCENES)))
    assert results["counts"]["answered"] == results["counts"]["questions"] == 6
    assert RunData(run.path).record["scenes"] == {"scans": 3, "annotations": 0, "missing": 0}
    assert RunData(run.path).record["notes"] == []
    # Rotating by 90 degrees about z maps x to y and y to −x.
    aligned, plain = run.states[0].scene, load_scene(scans["5942004064"])
    np.testing.assert_allclose(aligned.points, plain.points[:, [1, 0, 2]] * (-1, 1, 1), atol=1e-5)
    hashed = RunData(run.path).record["sha256"]["scans"]
    files = {str(scan) for scan in scans.values()} | {str(rotated.with_name("scene0011_00.txt"))}
    assert set(hashed) == files
    assert all(len(digest) == 64 for digest in hashed.values())


def test_changed_or_new_alignment_prevents_resuming(tmp_path):
    scan = write_scan(tmp_path, "scannet", "scene0011_00")
    config = options(tmp_path, write_questions(tmp_path, SCENES[:1]))
    text = scan.with_name("scene0011_00.txt")
    for before, after in ((None, QUARTER), (QUARTER, "axisAlignment = changed")):
        text.unlink(missing_ok=True)
        if before:
            text.write_text(before)
        run = start_run(config)
        run.close()
        resume_run(RunData(run.path), {}).close()
        text.write_text(after)
        with pytest.raises(SetupError, match=r"scene0011_00\.txt"):
            resume_run(RunData(run.path), {})


def test_missing_scans_prevent_a_run_unless_allowed(tmp_path):
    write_scan(tmp_path, *SCENES[0])
    questions = write_questions(tmp_path, SCENES)
    with pytest.raises(SetupError, match=r"2 of 3 scenes.* 4 of 6 questions.*5942004064"):
        start_run(options(tmp_path, questions))
    assert not (tmp_path / "runs").exists()

    run, results = play(options(tmp_path, questions, allow_missing=True))
    rows = {row["question_id"]: row for row in results["questions"]}
    assert len(rows) == 6
    assert Counter(row["status"] for row in rows.values()) == {"answered": 2, "missing": 4}
    assert rows["5942004064-0"]["score"] is None
    assert (results["status"], results["official"]) == ("partial", None)
    (note,) = RunData(run.path).record["notes"]
    assert all(text in note for text in ("--allow-missing", "2 of 3 scenes", "4 of 6 questions"))
    assert note in results["notes"]
    assert RunData(run.path).record["scenes"] == {"scans": 1, "annotations": 0, "missing": 2}
    resumed = resume_run(RunData(run.path), {})
    resumed.close()
    assert Counter(str(state.status) for state in resumed.states) == {"answered": 2, "missing": 4}


def test_dry_run_lists_missing_scans(tmp_path, capsys):
    write_scan(tmp_path, *SCENES[0])
    missing = [("scannet", f"scene{number:04}_01") for number in range(30)]
    config = options(tmp_path, write_questions(tmp_path, SCENES + missing), json=True)
    assert dry_run(config) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["questions"], report["missing"], report["notes"]) == (66, 64, [])
    assert report["missing_scenes"] == {
        "arkitscenes": ["41069021"],
        "scannet": [scene for _, scene in missing],
        "scannetpp": ["5942004064"],
    }


def test_subset_is_noted_in_results(tmp_path):
    write_scan(tmp_path, *SCENES[0])
    config = options(tmp_path, write_questions(tmp_path, SCENES[:1]), subset="debiased")
    run, results = play(config)
    assert [row["question_id"] for row in results["questions"]] == ["scene0011_00-0"]
    assert results["notes"][0] == "subset debiased of VSI-Bench"
    assert RunData(run.path).record["sha256"]["questions"].keys() == {config.questions}


@pytest.fixture(scope="module")
def annotated_run(tmp_path_factory):
    """A run over one room per data set, built from annotations."""
    path = test_data("vsibench", "test.jsonl")
    root = tmp_path_factory.mktemp("annotated")
    scenes = ("scene0251_00", "7b6477cb95", "41069025")
    config = options(root, path, annotations=str(path.parent), scene=scenes)
    return config, *play(config)


def test_rooms_from_annotations_are_noted_in_results(annotated_run):
    config, run, results = annotated_run
    assert results["counts"]["answered"] == results["counts"]["questions"] > 40
    assert {row["scene"] for row in results["questions"]} == set(config.scene)
    record = RunData(run.path).record
    assert record["scenes"] == {"scans": 0, "annotations": 3, "missing": 0}
    [note] = record["notes"]
    assert "stand-ins" in note
    assert f"3 of 3 scenes, {len(results['questions'])} of {len(results['questions'])}" in note
    assert results["notes"][0] == note
    output = io.StringIO()
    Console(file=output, width=200).print(score_table(results))
    assert note in " ".join(output.getvalue().split())
    assert run.scenes.loads == 3
    assert {name.rpartition("/")[2] for name in record["sha256"]["scans"]} == {
        f"{dataset}_meta_info_val.json" for dataset in TREE
    }


def test_run_over_annotations_can_be_resumed(annotated_run):
    _, run, results = annotated_run
    resumed = resume_run(RunData(run.path), {})
    assert not any(state.active for state in resumed.states)
    assert [state.answer for state in resumed.states] == [
        row["answer"] for row in results["questions"]
    ]
    assert resumed.states[0].scene.id == resumed.states[0].question.scene
    resumed.close()


@pytest.mark.slow
def test_run_over_annotations_is_reproducible(annotated_run, tmp_path):
    config, run, _ = annotated_run
    second, _ = play(replace(config, output=str(tmp_path), max_batched_turns=1))
    assert transcripts(second.path) == transcripts(run.path)
