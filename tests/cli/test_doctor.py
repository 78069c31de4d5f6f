"""Checks of the doctor, and its robustness against crashes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import test_data
from factories.models import small_model
from torch.nn import functional

from render_agent import registry
from render_agent.cli.commands.doctor import command, data, engines, machine, model_probe, renderers
from render_agent.cli.commands.doctor.checks import ProbeResult, run_probe
from render_agent.engines.transformers.fixed_shapes import FixedShapes
from render_agent.engines.transformers.model.load import open_model
from render_agent.util import system_libraries


def only(findings, name):
    (result,) = [finding for finding in findings if finding.name == name]
    return result


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
def test_failed_probe_reports_the_reason(call, seconds, said, explained):
    answer = run_probe(*call, seconds=seconds)
    assert said in answer.error
    assert bool(answer.explained) == explained


def test_default_renderer_reproduces_colours():
    result = renderers.draw_once(renderers.DEFAULT)
    assert result["seconds"] > 0
    assert {"kernels", "compiled", "device"} <= result.keys()


def test_optional_renderer_does_not_prevent_runs(monkeypatch):
    monkeypatch.setattr(
        renderers, "run_probe", lambda *_, seconds: renderers.ProbeResult(error="no EGL")
    )
    result = list(renderers.renderer_checks())
    assert [finding.name for finding in result] == list(registry.built_in("renderer"))
    assert [finding.name for finding in result if finding.prevents] == [renderers.DEFAULT]
    assert all(finding.remedy for finding in result)


def test_missing_model_suggests_an_alternative(monkeypatch):
    monkeypatch.setattr(engines, "run_probe", lambda *_, seconds: ProbeResult(error="no torch"))
    result = list(engines.engine_checks({"model": "nobody/nothing"}))
    model = only(result, "model")
    assert not model.works
    assert "--engine scripted" in model.detail
    assert only(result, "bundled model").works
    assert only(result, "transformers").remedy


def test_missing_libraries_name_their_packages(monkeypatch):
    library = system_libraries.SystemLibrary("libnone.so.7", "libnone7", "nothing")
    monkeypatch.setattr(system_libraries, "LIBRARIES", (library,))
    assert system_libraries.missing_libraries()[0] == library
    result = only(machine.machine_checks(Path()), "system libraries")
    assert not result.works
    assert not result.prevents
    assert "libnone.so.7 is missing" in result.detail
    assert result.remedy.startswith("sudo apt-get install libnone7")


def test_unwritable_output_prevents_runs(tmp_path):
    result = only(machine.machine_checks(tmp_path / "not" / "there" / "yet"), "disk")
    assert result.works
    assert str(tmp_path) in result.detail


def test_missing_required_package_prevents_runs(monkeypatch):
    assert machine._packages("").works
    monkeypatch.setattr(machine, "_version", lambda package: None)
    for extra, named, prevents in (("report", "matplotlib", False), ("", "numpy", True)):
        result = machine._packages(extra)
        assert not result.works
        assert result.prevents == prevents
        assert named in result.detail


def test_bundled_rooms_are_complete():
    result = only(data.data_checks({}), "bundled rooms")
    assert result.works, result.detail


def test_missing_bundled_rooms_prevent_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("render_agent.tasks.rooms.BUNDLED", tmp_path)
    for part, check in (
        (renderers, "renderer_checks"),
        (engines, "engine_checks"),
        (machine, "machine_checks"),
    ):
        monkeypatch.setattr(part, check, lambda *_, **__: iter(()))
    assert command.run_doctor({"output": str(tmp_path)}, as_json=False) == 1
    assert "fixed: bundled rooms" in capsys.readouterr().out


def test_scans_are_counted_in_the_given_folders(tmp_path):
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
    result = list(data.data_checks(options))
    assert only(result, "VSI-Bench").detail == "3 questions"
    assert only(result, "scannet").detail.startswith("1 of 2 scans found")
    assert not only(result, "scannet").works
    assert "RENDER_AGENT_ARKITSCENES" in only(result, "arkitscenes").remedy


@pytest.mark.slow
def test_all_checks_as_json():
    command = [sys.executable, "-m", "render_agent", "doctor", "--json"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    output = json.loads(asked.stdout)
    assert output["ready"] is True
    assert asked.returncode == 0
    works = {finding["name"]: finding["works"] for finding in output["findings"]}
    assert works["Python"]
    assert works["rasteriser"]
    assert works["scripted"]
    assert works["transformers"]
    assert works["bundled rooms"]
    assert {"model", "memory", "disk", "system libraries", "VSI-Bench"} <= works.keys()
    assert "Traceback" not in asked.stdout + asked.stderr


def test_annotations_are_counted_in_the_given_folder(tmp_path):
    folder = test_data("vsibench", "scannet_meta_info_val.json").parent
    options = {"questions": str(folder / "test.jsonl"), "annotations": str(folder)}
    result = only(data.data_checks(options), "annotations")
    assert result.works
    assert result.detail.startswith("288 of 288 scenes are annotated in")
    none = only(data.data_checks(options | {"annotations": str(tmp_path)}), "annotations")
    assert not none.works


def test_probe_of_a_correct_model():
    result = model_probe.probe_model(str(small_model()), "cpu", "float32")
    assert result["batch"] is None
    assert result["reuse"] is None
    assert result["reproducible"] is None
    told = engines.probe_check("small", result)
    assert told.works
    assert "batch = single, reuse = recompute" in told.detail
    assert "--reproducible on" in told.detail


def test_probe_detects_that_the_composition_of_a_batch_changes_results(monkeypatch):
    """The run works, but `--reproducible on` would be refused."""
    linear = functional.linear

    def shape_dependent(given, weight, bias=None):
        return linear(given, weight, bias) * (1 + given.numel() % 61 * 1e-6)

    monkeypatch.setattr(FixedShapes, "sizes", lambda self, *sizes: sizes)
    loaded = open_model(str(small_model()), device="cpu", dtype="float32")
    monkeypatch.setattr(functional, "linear", shape_dependent)
    why = model_probe._why_not_reproducible(loaded)
    assert "does not hold on cpu" in why
    told = engines.probe_check(
        "small", {"batch": None, "reuse": None, "reproducible": why, "seconds": 1.0}
    )
    assert told.works
    assert why in told.detail


def test_probe_detects_batch_differences(monkeypatch):
    def disturb(module, inputs, scores):
        return scores.roll(1, -1) if scores.shape[0] > 1 else scores

    loaded = open_model(str(small_model()), device="cpu", dtype="float32")
    loaded.model.lm_head.register_forward_hook(disturb)
    result = model_probe._probe_loaded(loaded)
    assert result["batch"]
    assert not engines.probe_check("small", result).works
