"""The recorded SHA-256 of an input is that of the bytes that a run reads, and identifies its results later."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from factories import TREE
from factories.clouds import write_usd
from factories.packages import install
from factories.runs import (
    comparable_results,
    finish_run,
    make_config,
    make_questions,
    play,
    spread_over_rooms,
    transcripts,
    truncate_log,
    walking_engine,
)
from factories.scenes import room, write_ply
from PIL import Image

from render_agent import __version__
from render_agent.errors import RunLogError, SceneError, SetupError, UsageError
from render_agent.parts.counterfactual import counterparts
from render_agent.report.comparison.compare_runs import compare_runs
from render_agent.report.export.writers import ExportOptions, export
from render_agent.report.pages.comparison.changes import changed_questions
from render_agent.runs.merge_shards import merge_shards
from render_agent.runs.read import RunData
from render_agent.runs.runner import preview_resume, resume_run, start_run
from render_agent.scans.formats.load import load_scene
from render_agent.scans.formats.textured.image_files import Siblings
from render_agent.tasks.rooms import QuestionFile
from render_agent.tasks.scene_reader import read_scene
from render_agent.util import file_digests
from render_agent.util.file_digests import sha256
from render_agent.views.stress import image_stress


def edit_record(run: Path, change) -> None:
    """Let a function change the content of `config.json`."""
    record = json.loads((run / "config.json").read_text())
    change(record)
    (run / "config.json").write_text(json.dumps(record))


def test_file_of_same_size_and_time_has_another_digest(tmp_path, monkeypatch):
    monkeypatch.setattr(file_digests, "COARSE_NS", -(10**9))  # remember digests at once
    file = tmp_path / "scan.ply"
    file.write_bytes(b"one")
    before, status = sha256(file), file.stat()
    assert sha256(file) == before
    file.write_bytes(b"two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert sha256(file) != before
    (tmp_path / "other").write_bytes(b"one")
    (tmp_path / "other").replace(file)
    assert sha256(file) == before


def test_unchanged_file_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(file_digests, "COARSE_NS", -(10**9))
    file = tmp_path / "scan.ply"
    file.write_bytes(b"one")
    digest = sha256(file)
    monkeypatch.setattr(file_digests, "_hash", None)
    assert sha256(file) == digest


def test_scan_replaced_before_it_is_read_fails_its_questions(tmp_path):
    questions = spread_over_rooms(make_questions(tmp_path, 4), 2)
    run = start_run(make_config(tmp_path, questions, max_turns=2))
    write_ply(tmp_path / "room1.ply", room()[0] * 1.1, *room()[1:])
    finish_run(run)
    failed = {state.id: state.error for state in RunData(run.path).states}
    assert failed["0"] is None
    assert failed["2"] is None
    for name in "13":
        assert str(tmp_path / "room1.ply") in failed[name]
    assert not [file for file in (run.path / "views").rglob("*.png") if "room1" in str(file)]
    with pytest.raises(SetupError, match="room1"):
        resume_run(RunData(run.path), {})


def test_scan_replaced_while_it_is_read_fails_its_questions(tmp_path, monkeypatch):
    questions = make_questions(tmp_path, 1)

    def slow_copy(path, name, *frame):
        scene = read_scene(path, name, *frame)
        path.write_bytes(path.read_bytes() + b"more")
        return scene

    run = start_run(make_config(tmp_path, questions, max_turns=2))
    monkeypatch.setattr(image_stress, "read_scene", slow_copy)
    assert finish_run(run)["counts"]["failed"] == 1


def test_single_scan_is_hashed_before_it_is_read(tmp_path, monkeypatch):
    scan = tmp_path / "room.ply"
    write_ply(scan, *room())

    def replaced_in_between(path, name, *frame):
        path.write_bytes(path.read_bytes() + b" ")
        return read_scene(path, name, *frame)

    monkeypatch.setattr(image_stress, "read_scene", replaced_in_between)
    config = make_config(tmp_path, scan, batch=False, benchmark="rooms", ply=str(scan), question="What?")  # fmt: skip
    with pytest.raises(Exception, match="changed since the run started"):
        start_run(config, reads_scan=True)
    assert not (tmp_path / "runs").exists()


def test_question_file_replaced_while_it_is_read_stops_the_run(tmp_path, monkeypatch):
    questions = make_questions(tmp_path, 2)
    read = QuestionFile.questions

    def replaced(self, config):
        content = read(self, config)
        self.path.write_text(self.path.read_text().replace('"3"', '"4"'))
        return content

    monkeypatch.setattr(QuestionFile, "questions", replaced)
    with pytest.raises(SetupError, match=f"{questions} was replaced"):
        start_run(make_config(tmp_path, questions))
    assert not (tmp_path / "runs").exists()


def test_scan_replaced_while_it_is_changed_stops_the_run(tmp_path, monkeypatch):
    shutil.copytree(TREE / "render_agent" / "bundled", tmp_path / "rooms")
    scan = tmp_path / "rooms" / "room00.ply"

    def replaced(path, name, *frame):
        scene = read_scene(path, name, *frame)
        scan.write_bytes(scan.read_bytes() + b" ")
        return scene

    monkeypatch.setattr(counterparts, "read_scene", replaced)
    questions = tmp_path / "rooms" / "questions.jsonl"
    config = make_config(tmp_path, questions, scene=("room00",), change=("remove:chair",))
    with pytest.raises(SetupError, match=f"{scan} was replaced"):
        start_run(config)


@pytest.mark.parametrize("options", [{"tools": "measure"}, {"tools": "graph", "views": "free"}])
def test_run_with_aids_is_not_resumed_with_other_boxes(tmp_path, options):
    shutil.copytree(TREE / "render_agent" / "bundled", tmp_path / "rooms")
    questions = tmp_path / "rooms" / "questions.jsonl"
    run = start_run(make_config(tmp_path, questions, scene=("room00",), limit=2, **options))
    run.close()
    resume_run(RunData(run.path), {}).close()
    boxes = tmp_path / "rooms" / "room00.json"
    boxes.write_text(boxes.read_text().replace('"chair":3', '"chair":4', 1))
    with pytest.raises(SetupError, match=str(boxes)):
        resume_run(RunData(run.path), {})


@pytest.mark.parametrize("is_folder", [False, True])
def test_missing_scan_is_not_called_changed(tmp_path, is_folder):
    folder = tmp_path / "scans"
    folder.mkdir()
    questions = make_questions(folder, 2)
    run = start_run(make_config(tmp_path, questions))
    run.close()
    scan = folder / "room.ply"
    (folder if is_folder else scan).rename(tmp_path / "elsewhere")
    for attempt in (resume_run, preview_resume):
        with pytest.raises(SetupError, match=f"{scan}.* missing") as error:
            attempt(RunData(run.path), {})
        assert "SHA-256" not in str(error.value)


POLICY = """
from render_agent.engines.scripted.load_policy import ReplayPolicy

def policy(questions, seed):
    return ReplayPolicy({"*": ['{"answer": "1", "done": true}']})
"""


def test_policy_replaced_before_it_is_loaded_stops_the_run(tmp_path):
    policy = tmp_path / "policy.py"
    policy.write_text(POLICY)
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), model=str(policy)))
    policy.write_text(POLICY.replace('"1"', '"2"'))
    with pytest.raises(SetupError, match=str(policy)):
        finish_run(run)
    assert not RunData(run.path).turns


@pytest.mark.parametrize("name", ["replies.jsonl", "policy.py"])
def test_run_is_not_resumed_with_another_policy(tmp_path, name):
    policy = tmp_path / name
    line = json.dumps({"id": "*", "replies": [{"rotation_angle_degrees": 10}]}) + "\n"
    policy.write_text(line if name.endswith("l") else POLICY)
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), model=str(policy)))
    run.close()
    resume_run(RunData(run.path), {}, allow_code=True).close()
    policy.write_text(policy.read_text() + "\n")
    with pytest.raises(SetupError, match=str(policy)):
        resume_run(RunData(run.path), {}, allow_code=True)
    edit_record(run.path, lambda record: record["sha256"].pop("policies"))  # an older run
    resume_run(RunData(run.path), {}, allow_code=True).close()


PROJECT = """
[project]
name = "odd-engine"
version = "1.0"
[project.entry-points."render_agent.policies"]
odd = "odd_engine:odd"
"""
ODD = POLICY.replace("def policy(questions, seed):", "def odd(questions, seed, config):")


def test_run_is_not_resumed_with_another_version_of_a_package(tmp_path, monkeypatch):
    source = ODD.replace("def odd", "def made") + "\nfrom render_agent.engines.scripted.policy import NamedPolicy\nodd = NamedPolicy(made)\n"  # fmt: skip
    install(monkeypatch, tmp_path, PROJECT, {"odd_engine": source})
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), model="odd"))
    run.close()
    assert RunData(run.path).recorded["packages"] == {
        "render_agent": __version__,
        "scripted policy odd": "odd-engine 1.0",
    }
    resume_run(RunData(run.path), {}).close()
    edit_record(run.path, lambda record: record["packages"].update({"scripted policy odd": "odd-engine 0.9"}))  # fmt: skip
    with pytest.raises(SetupError, match=r"odd-engine 1\.0.*odd-engine 0\.9"):
        resume_run(RunData(run.path), {})
    edit_record(run.path, lambda record: record["packages"].clear())  # an older run
    resume_run(RunData(run.path), {}).close()


def write_textured(folder: Path, kind: str) -> tuple[Path, set[str]]:
    """Write a scan of several files; return it and the names of the others."""
    Image.new("RGB", (2, 2), (200, 10, 10)).save(folder / "My Wood.png")
    (folder / "mask.png").write_bytes((folder / "My Wood.png").read_bytes())
    scan = folder / f"scan.{kind}"
    points = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 3]], np.float32)
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 1, 3]], np.uint32)
    if kind == "obj":
        rows = ["o room", *(f"v {x} {y} {z}" for x, y, z in points), "vt 0 0", "mtllib paint.mtl gone.mtl", "usemtl paint"]  # fmt: skip
        rows += ["f " + " ".join(f"{corner + 1}/1" for corner in face) for face in faces]
        scan.write_text("\n".join(rows))
        (folder / "paint.mtl").write_text(
            "newmtl paint\nmap_Kd -s 1 1 1 My Wood.png\nmap_d mask.png\n"
        )
        return scan, {"paint.mtl gone.mtl", "paint.mtl", "gone.mtl", "My Wood.png", "mask.png"}
    if kind == "gltf":
        data = points.tobytes() + faces.tobytes()
        (folder / "points.bin").write_bytes(data)
        views = [{"buffer": 0, "byteLength": 48}, {"buffer": 0, "byteOffset": 48, "byteLength": 36}]
        accessors = [
            {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5125, "count": 9, "type": "SCALAR"},
        ]
        tree = {
            "asset": {"version": "2.0"},
            "buffers": [{"uri": "points.bin", "byteLength": len(data)}],
            "images": [{"uri": "My%20Wood.png"}, {"uri": "data:image/png;base64,"}],
            "bufferViews": views,
            "accessors": accessors,
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
            "nodes": [{"mesh": 0}],
            "scenes": [{"nodes": [0]}],
        }
        scan.write_text(json.dumps(tree))
        return scan, {"points.bin"}  # no material uses the image
    if kind == "ply":
        header = ["ply", "format ascii 1.0", "comment TextureFile My Wood.png", "element vertex 4"]
        header += [f"property float {axis}" for axis in "xyzst"]
        header += ["element face 3", "property list uchar int vertex_indices", "end_header"]
        rows = [f"{x} {y} {z} 0 0" for x, y, z in points]
        rows += ["3 " + " ".join(map(str, face)) for face in faces]
        scan.write_text("\n".join([*header, *rows]) + "\n")
        return scan, {"My Wood.png"}
    write_usd(folder / "layer.usda", points, faces)
    scan.write_text("#usda 1.0\n(\n    subLayers = [@./layer.usda@, @./gone.usda@]\n)\n")
    return scan, {"layer.usda", "gone.usda"}


@pytest.mark.parametrize("kind", ["obj", "gltf", "ply", "usda"])
def test_all_files_of_a_scan_that_are_read_are_recorded(tmp_path, monkeypatch, kind):
    if kind == "usda":
        pytest.importorskip("pxr")
    scan, names = write_textured(tmp_path, kind)
    files = load_scene(scan, unit="m").files
    assert files == {
        str(tmp_path / name): sha256(tmp_path / name) if (tmp_path / name).exists() else None
        for name in names
    }
    opened = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path) or read_bytes(path))
    load_scene(scan, unit="m")
    assert {str(path) for path in opened} - {str(scan)} <= files.keys()


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/hostname", "http://a.b/c.mtl"])
def test_textures_outside_the_folder_are_not_read(tmp_path, name):
    siblings = Siblings(tmp_path)
    with pytest.raises(Exception, match=r"outside|not exist|not a file"):
        siblings.read(name)
    assert all(Path(file).parent == tmp_path for file in siblings.opened)
    assert not any(siblings.opened.values())


@pytest.mark.parametrize("kind", ["obj", "ply", "usda"])
def test_added_file_of_a_scan_prevents_resuming(tmp_path, kind):
    if kind == "usda":
        pytest.importorskip("pxr")
    scan, _ = write_textured(tmp_path, kind)
    name, like = {
        "obj": ("gone.mtl", "paint.mtl"),
        "ply": ("My Wood.png", "mask.png"),
        "usda": ("gone.usda", "layer.usda"),
    }[kind]
    (tmp_path / name).unlink(missing_ok=True)
    options = {"batch": False, "benchmark": "rooms", "ply": str(scan), "question": "What?"}
    run = start_run(make_config(tmp_path, scan, **options, model="wanderer", unit="m"))
    assert finish_run(run)["counts"]["failed"] == 0
    truncate_log(run.path, 1)
    resume_run(RunData(run.path), {}).close()
    shutil.copy(tmp_path / like, tmp_path / name)
    with pytest.raises(SetupError, match=name):
        resume_run(RunData(run.path), {})


def test_texture_replaced_while_it_is_read_fails_the_scene(tmp_path, monkeypatch):
    scan, _ = write_textured(tmp_path, "ply")
    read = Siblings.read

    def slow_copy(self, name, folder=None):
        content = read(self, name, folder)
        (self.folder / name).write_bytes(content + b"more")
        return content

    monkeypatch.setattr(Siblings, "read", slow_copy)
    with pytest.raises(SceneError, match=r"My Wood\.png was replaced"):
        load_scene(scan, unit="m")


def test_texture_replaced_between_two_readings_fails_the_scene(tmp_path):
    scan, _ = write_textured(tmp_path, "ply")
    config = make_config(tmp_path, scan, batch=False, benchmark="rooms", ply=str(scan), question="What?", unit="m")  # fmt: skip
    run = start_run(config)
    (state,) = run.states
    assert run.scenes.get(state.question).files
    run.scenes._entries.clear()  # as if evicted
    Image.new("RGB", (2, 2), (10, 200, 10)).save(tmp_path / "My Wood.png")
    with pytest.raises(SceneError, match=r"My Wood\.png has changed"):
        run.scenes.get(state.question)
    run.close()


def test_file_of_which_workers_read_several_versions_is_that_of_no_run(tmp_path):
    scan, _ = write_textured(tmp_path, "ply")
    questions = make_questions(tmp_path, 2)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    for row in rows:
        row["scene_name"] = scan.stem
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = start_run(make_config(tmp_path, questions, model="wanderer", unit="m"))
    finish_run(run)
    log = run.path / "turns.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0]["scan_files"] == lines[1]["scan_files"]
    lines[1]["scan_files"] = {str(tmp_path / "My Wood.png"): "0" * 64}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines[:2]))
    (run.path / "results.json").unlink()
    assert [Path(file.name).name for file in RunData(run.path).changed_scans] == ["My Wood.png"]
    with pytest.raises(SetupError, match=r"My Wood\.png"):
        resume_run(RunData(run.path), {})


def test_older_run_with_files_of_its_scans_in_config(tmp_path):
    scan, _ = write_textured(tmp_path, "obj")
    options = {"batch": False, "benchmark": "rooms", "ply": str(scan), "question": "What?"}
    run = start_run(make_config(tmp_path, scan, **options, model="wanderer", unit="m"))
    finish_run(run)
    truncate_log(run.path, 1)
    log = run.path / "turns.jsonl"
    line = json.loads(log.read_text())
    files = line.pop("scan_files")
    log.write_text(json.dumps(line) + "\n")

    def as_before(record):
        record["sha256"]["scans"] |= files
        record["scan_parts"] = {str(scan): sorted(files)}

    edit_record(run.path, as_before)
    resume_run(RunData(run.path), {}).close()
    (tmp_path / "My Wood.png").write_bytes(b"another")
    with pytest.raises(SetupError, match=r"My Wood\.png"):
        resume_run(RunData(run.path), {})
    assert [file.name for file in RunData(run.path).changed_scans] == [
        str(tmp_path / "My Wood.png")
    ]


@pytest.fixture
def questions_in_three_rooms(tmp_path):
    """A finished run of two rooms, and its questions."""
    questions = spread_over_rooms(make_questions(tmp_path, 6), 3)
    return play(tmp_path, questions, walking_engine(6), max_turns=2)[0], questions


def test_changed_ground_truth_accompanies_every_score(questions_in_three_rooms):
    path, _ = questions_in_three_rooms
    before = RunData(path).saved_results
    file = path / "questions.jsonl"
    file.write_text(file.read_text().replace('"truth": "B"', '"truth": "A"', 1))
    results = RunData(path).results
    assert results["questions"] != before["questions"]
    assert any("questions.jsonl" in note for note in results["notes"])
    assert RunData(path).saved_results == before
    with pytest.raises(SetupError, match=r"questions\.jsonl"):
        resume_run(RunData(path), {})


def test_older_run_without_digests_still_works(questions_in_three_rooms):
    path, _ = questions_in_three_rooms

    def forget_digests(record):
        for name in ("questions.jsonl", "models", "policies"):
            record["sha256"].pop(name)

    edit_record(path, forget_digests)
    run = RunData(path)
    assert run.changed_questions is None
    assert run.scene_notes == []
    assert run.results == {**run.saved_results}
    resume_run(RunData(path), {}).close()


def test_run_is_not_resumed_with_another_prompt(questions_in_three_rooms):
    path, _ = questions_in_three_rooms
    truncate_log(path, 1)
    resume_run(RunData(path), {}).close()
    edit_record(path, lambda record: record["sha256"].update(prompt="another"))
    with pytest.raises(SetupError, match="prompt"):
        resume_run(RunData(path), {})


def test_killed_run_is_not_resumed_with_other_questions(questions_in_three_rooms):
    path, questions = questions_in_three_rooms
    truncate_log(path, 0)
    (path / "questions.jsonl").unlink()
    content = questions.read_text()
    questions.write_text(content.replace('"ground_truth": "3"', '"ground_truth": "4"', 1))
    with pytest.raises(SetupError, match=str(questions)):
        resume_run(RunData(path), {})
    assert not (path / "questions.jsonl").exists()
    questions.write_text(content)
    resume_run(RunData(path), {}).close()
    assert RunData(path).changed_questions is None


def test_runs_of_moved_scans_are_comparable(questions_in_three_rooms, tmp_path):
    path, questions = questions_in_three_rooms
    moved = Path(shutil.copytree(questions.parent, tmp_path.with_name(tmp_path.name + "-moved")))
    moved_run = play(moved, moved / questions.name, walking_engine(6), max_turns=2)[0]
    (pair,) = compare_runs([RunData(path), RunData(moved_run)], anyway_option="")
    assert pair["n"] == 6
    assert not pair["warnings"]


def test_questions_about_other_scans_are_not_paired(questions_in_three_rooms, tmp_path):
    path, questions = questions_in_three_rooms
    write_ply(tmp_path / "room1.ply", room()[0] * 1.1, *room()[1:])
    second_run = play(tmp_path, questions, walking_engine(6, turns=4), max_turns=2)[0]
    runs = [RunData(path), RunData(second_run)]
    with pytest.raises(UsageError, match=str(tmp_path / "room1.ply")):
        compare_runs(runs, anyway_option="")
    (pair,) = compare_runs(runs, anyway=True, anyway_option="")
    assert pair["n"] == 4
    assert str(tmp_path / "room1.ply") in pair["warnings"][0]
    with pytest.raises(UsageError, match="room1"):
        compare_runs(runs[::-1], anyway_option="")
    changed_ids = [change.question_id for change in changed_questions(runs)]
    assert changed_ids == [entry["question_id"] for entry in pair["changed"]]


def test_maps_of_other_boxes_are_not_exported_together(tmp_path):
    runs = []
    for name in ("a", "b"):
        folder = shutil.copytree(TREE / "render_agent" / "bundled", tmp_path / name)
        options = {"scene": ("room00",), "limit": 2, "model": "random"}
        run = start_run(make_config(folder, folder / "questions.jsonl", **options))
        run.close()
        runs.append(RunData(run.path))
    export(runs, "maps", tmp_path / "maps", ExportOptions())
    boxes = tmp_path / "b" / "room00.json"
    boxes.write_text(boxes.read_text().replace('"axesLengths":[', '"axesLengths":[1', 1))
    edit_record(runs[1].path, lambda record: record["sha256"].update(annotations={}))
    with pytest.raises(UsageError, match="room00"):
        export([runs[0], RunData(runs[1].path)], "maps", tmp_path / "other", ExportOptions())


def test_scenes_of_other_scans_are_not_shown_from_the_run(questions_in_three_rooms, tmp_path):
    path, _ = questions_in_three_rooms
    write_ply(tmp_path / "room1.ply", room()[0] * 1.1, *room()[1:])
    run = RunData(path)
    assert [file.name for file in run.changed_scans] == [str(tmp_path / "room1.ply")]
    for state in run.states:
        if state.question.scene == "room1":
            with pytest.raises(Exception, match="changed since the run started"):
                run.scenes.get(state.question)
        else:
            assert run.scenes.get(state.question).id == state.question.scene


def shards(folder, questions, **options):
    return [
        RunData(
            play(folder, questions, walking_engine(6), shard=f"{part}/2", max_turns=2, **options)[0]
        )
        for part in (1, 2)
    ]


def test_shards_of_other_questions_are_not_merged(questions_in_three_rooms, tmp_path):
    _, questions = questions_in_three_rooms
    (first, _) = shards(tmp_path, questions)
    questions.write_text(questions.read_text().replace('"B"', '"A"', 1))
    (_, second) = shards(tmp_path, questions)
    with pytest.raises(UsageError, match=str(questions)):
        merge_shards(tmp_path / "merged", [first, second])
    assert not (tmp_path / "merged").exists()


def test_overlapping_or_incomplete_shards_are_not_merged(questions_in_three_rooms, tmp_path):
    _, questions = questions_in_three_rooms
    first, second = shards(tmp_path, questions)
    lines = (second.path / "questions.jsonl").read_text().splitlines(keepends=True)
    all_lines = (first.path / "questions.jsonl").read_text() + "".join(lines)
    cases = {"".join(lines[:-1]): "in none of the shards", all_lines: "is in"}
    for content, message in cases.items():
        (second.path / "questions.jsonl").write_text(content)
        edit_record(second.path, lambda record: record["sha256"].pop("questions.jsonl", None))
        with pytest.raises(UsageError, match=message):
            merge_shards(tmp_path / "merged", [first, RunData(second.path)])
    assert not (tmp_path / "merged").exists()


@pytest.mark.parametrize("section", ["scans", "annotations", "verifiers", "models", "policies", "packages"])  # fmt: skip
def test_shards_must_agree_in_every_digest(questions_in_three_rooms, tmp_path, section):
    _, questions = questions_in_three_rooms
    for run, digest in zip(runs := shards(tmp_path, questions), "ab", strict=True):

        def record_digest(record, digest=digest):
            (record["sha256"] | record)[section]["shared"] = digest

        edit_record(run.path, record_digest)
    with pytest.raises(UsageError, match="shared"):
        merge_shards(tmp_path / "merged", [RunData(run.path) for run in runs])


def test_shards_of_other_versions_are_not_merged(questions_in_three_rooms, tmp_path):
    path, questions = questions_in_three_rooms
    first, second = shards(tmp_path, questions)
    edit_record(second.path, lambda record: record.update(program="0.2.99"))
    edit_record(path, lambda record: record.update(program="0.2.99"))
    with pytest.raises(UsageError, match="package render_agent"):
        merge_shards(tmp_path / "merged", [first, RunData(second.path)])
    (pair,) = compare_runs([first, RunData(path)], anyway=True, anyway_option="")
    assert pair["options"]["package render_agent"] == [__version__, "0.2.99"]
    truncate_log(path, 1)
    resume_run(RunData(path), {}).close()  # with the same prompt


def test_weights_that_older_shards_recorded_must_agree(questions_in_three_rooms, tmp_path):
    _, questions = questions_in_three_rooms
    for run, digest in zip(runs := shards(tmp_path, questions), "ab", strict=True):

        def record_weights(record, digest=digest):
            record["sha256"].pop("models")
            record["engine"]["weights"] = f"sha256:{digest}"

        edit_record(run.path, record_weights)
    with pytest.raises(UsageError, match="had different inputs"):
        merge_shards(tmp_path / "merged", [RunData(run.path) for run in runs])


def test_failed_merge_leaves_nothing_behind(questions_in_three_rooms, tmp_path, monkeypatch):
    _, questions = questions_in_three_rooms
    runs = shards(tmp_path, questions)

    def fail_when_full(source, target):
        raise RunLogError("no space left")

    monkeypatch.setattr("render_agent.runs.merge_shards._copy_images", fail_when_full)
    with pytest.raises(RunLogError, match="no space"):
        merge_shards(tmp_path / "merged", runs)
    assert list((tmp_path / "merged").iterdir()) == []


def test_damaged_shard_is_named(questions_in_three_rooms, tmp_path):
    _, questions = questions_in_three_rooms
    first, second = shards(tmp_path, questions)
    lines = (second.path / "turns.jsonl").read_text().splitlines(keepends=True)
    (second.path / "turns.jsonl").write_text("".join(lines + lines[:1]))
    with pytest.raises(RunLogError, match=second.name):
        merge_shards(tmp_path / "merged", [first, RunData(second.path)])
    assert not (tmp_path / "merged").exists()


def test_merged_run_has_the_digest_of_its_questions(questions_in_three_rooms, tmp_path):
    path, questions = questions_in_three_rooms
    merged, _ = merge_shards(tmp_path / "merged", shards(tmp_path, questions))
    assert RunData(merged).changed_questions is None
    assert "selection" not in RunData(merged).record
    assert transcripts(merged) == transcripts(path)
    assert comparable_results(merged) == comparable_results(path)
