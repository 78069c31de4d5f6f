"""What the doctor finds, and that nothing on the machine can take it down."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import test_data
from factories.models import small_model

from render_agent import registry
from render_agent.cli.commands.doctor import command, data, engines, machine, model_probe, renderers
from render_agent.cli.commands.doctor.checks import ProbeResult, run_probe
from render_agent.engines.transformers.model.load import open_model
from render_agent.util import system_libraries


def only(findings, name):
    (found,) = [finding for finding in findings if finding.name == name]
    return found


@pytest.mark.parametrize(
    ("call", "seconds", "said", "explained"),
    [
        (("os", "abort"), 60, "signal 6", False),
        (("subprocess", "getoutput", "sleep 100"), 1, "1 seconds", False),
        (("os", "listdir", "/no/such/folder"), 60, "'/no/such/folder'", False),
        (
            ("render_agent.cli.commands.doctor.renderers", "draw_once", "crayon"),
            60,
            "'crayon'",
            True,
        ),
    ],
)
def test_a_probe_that_fails_in_any_way_says_what_happened(call, seconds, said, explained):
    answer = run_probe(*call, seconds=seconds)
    assert said in answer.error
    assert bool(answer.explained) == explained


def test_the_default_renderer_draws_in_the_colours_it_was_given():
    found = renderers.draw_once(renderers.DEFAULT)
    assert found["seconds"] > 0
    assert {"kernels", "compiled", "device"} <= found.keys()


def test_a_renderer_that_is_missing_keeps_no_run_from_starting(monkeypatch):
    monkeypatch.setattr(
        renderers, "run_probe", lambda *_, seconds: renderers.ProbeResult(error="no EGL")
    )
    found = list(renderers.renderer_checks())
    assert [finding.name for finding in found] == list(registry.built_in("renderer"))
    assert [finding.name for finding in found if finding.prevents] == [renderers.DEFAULT]
    assert all(finding.remedy for finding in found)


def test_a_model_that_is_not_here_is_a_sentence_with_a_way_out(monkeypatch):
    monkeypatch.setattr(engines, "run_probe", lambda *_, seconds: ProbeResult(error="no torch"))
    found = list(engines.engine_checks({"model": "nobody/nothing"}))
    model = only(found, "model")
    assert not model.works
    assert "--engine scripted" in model.detail
    assert only(found, "bundled model").works
    assert only(found, "transformers").remedy


def test_missing_libraries_are_named_with_their_packages(monkeypatch):
    library = system_libraries.SystemLibrary("libnone.so.7", "libnone7", "nothing")
    monkeypatch.setattr(system_libraries, "LIBRARIES", (library,))
    assert system_libraries.missing()[0] == library
    found = only(machine.machine_checks(Path()), "system libraries")
    assert not found.works
    assert not found.prevents
    assert "libnone.so.7 is missing" in found.detail
    assert found.remedy.startswith("sudo apt-get install libnone7")


def test_runs_need_a_folder_that_can_be_written(tmp_path):
    found = only(machine.machine_checks(tmp_path / "not" / "there" / "yet"), "disk")
    assert found.works
    assert str(tmp_path) in found.detail


def test_a_package_that_is_missing_is_named_and_prevents_runs_where_all_need_it(monkeypatch):
    assert machine._packages("").works
    monkeypatch.setattr(machine, "_version", lambda package: None)
    for extra, named, prevents in (("report", "matplotlib", False), ("", "numpy", True)):
        found = machine._packages(extra)
        assert not found.works
        assert found.prevents == prevents
        assert named in found.detail


def test_the_bundled_rooms_are_all_here():
    found = only(data.data_checks({}), "bundled rooms")
    assert found.works, found.detail


def test_no_run_is_possible_without_the_bundled_rooms(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("render_agent.tasks.rooms.BUNDLED", tmp_path)
    for part, check in (
        (renderers, "renderer_checks"),
        (engines, "engine_checks"),
        (machine, "machine_checks"),
    ):
        monkeypatch.setattr(part, check, lambda *_, **__: iter(()))
    assert command.run_doctor({"output": str(tmp_path)}, as_json=False) == 1
    assert "fixed: bundled rooms" in capsys.readouterr().out


def test_scans_are_counted_where_the_options_point(tmp_path):
    rows = [
        {
            "id": number,
            "dataset": dataset,
            "scene_name": scene,
            "question_type": "object_counting",
            "question": "How many chair(s) are in this room?",
            "options": None,
            "ground_truth": "4",
        }
        for number, (dataset, scene) in enumerate(
            [("scannet", "scene0011_00"), ("scannet", "scene0015_00"), ("arkitscenes", "41069021")]
        )
    ]
    questions = tmp_path / "test.jsonl"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scan = tmp_path / "scannet" / "scans" / "scene0011_00" / "scene0011_00_vh_clean_2.ply"
    scan.parent.mkdir(parents=True)
    scan.touch()
    options = {"questions": str(questions), "scannet": (str(tmp_path / "scannet"),)}
    found = list(data.data_checks(options))
    assert only(found, "VSI-Bench").detail == "3 questions"
    assert only(found, "scannet").detail.startswith("1 of 2 scans found")
    assert not only(found, "scannet").works
    assert "RENDER_AGENT_ARKITSCENES" in only(found, "arkitscenes").remedy


@pytest.mark.slow
def test_the_whole_examination_as_json():
    command = [sys.executable, "-m", "render_agent", "doctor", "--json"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    told = json.loads(asked.stdout)
    assert told["ready"] is True
    assert asked.returncode == 0
    works = {finding["name"]: finding["works"] for finding in told["findings"]}
    assert works["Python"]
    assert works["rasteriser"]
    assert works["scripted"]
    assert works["transformers"]
    assert works["bundled rooms"]
    assert {"model", "memory", "disk", "system libraries", "VSI-Bench"} <= works.keys()
    assert "Traceback" not in asked.stdout + asked.stderr


def test_annotations_are_counted_where_the_option_points(tmp_path):
    folder = test_data("vsibench", "scannet_meta_info_val.json").parent
    options = {"questions": str(folder / "test.jsonl"), "annotations": str(folder)}
    found = only(data.data_checks(options), "annotations")
    assert found.works
    assert found.detail.startswith("288 of 288 scenes are annotated in")
    none = only(data.data_checks(options | {"annotations": str(tmp_path)}), "annotations")
    assert not none.works


def test_a_model_that_answers_as_it_should_says_so():
    found = model_probe.probe_model(str(small_model()), "cpu", "float32")
    assert found["batch"] is None
    assert found["reuse"] is None
    told = engines.probe_check("small", found)
    assert told.works
    assert "batch = single, reuse = recompute" in told.detail


def test_a_model_whose_batches_say_something_else_is_found_out(monkeypatch):
    def disturb(module, inputs, scores):
        return scores.roll(1, -1) if scores.shape[0] > 1 else scores

    loaded = open_model(str(small_model()), device="cpu", dtype="float32")
    loaded.model.lm_head.register_forward_hook(disturb)
    found = model_probe._probed(loaded)
    assert "differs when others are answered with it" in found["batch"]
    assert not engines.probe_check("small", found).works
