"""The checks of `render-agent doctor`, and its robustness against crashes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import test_data
from factories.models import small_model
from torch.nn import functional

from render_agent import registry
from render_agent.cli.commands.doctor import checks, command, system_libraries
from render_agent.cli.commands.doctor.checks import ProbeResult, run_probe
from render_agent.engines.transformers import prefill
from render_agent.engines.transformers.fixed_shapes import FixedShapes
from render_agent.engines.transformers.model.load import open_model


def find(findings, name):
    """Return the only finding with this name."""
    (result,) = [finding for finding in findings if finding.name == name]
    return result


@pytest.mark.parametrize(
    ("call", "seconds", "reason", "is_explained"),
    [
        (("os", "abort"), 60, "signal 6", False),
        (("subprocess", "getoutput", "sleep 100"), 1, "1 seconds", False),
        (("os", "listdir", "/no/such/folder"), 60, "'/no/such/folder'", False),
        ((checks.__name__, "draw_once", "crayon"), 60, "'crayon'", True),
    ],
)
def test_failed_probe_reports_the_reason(call, seconds, reason, is_explained):
    result = run_probe(*call, seconds=seconds)
    assert reason in result.error
    assert bool(result.explained) == is_explained


def test_default_renderer_reproduces_colours():
    result = checks.draw_once(checks.DEFAULT_RENDERER)
    assert result["seconds"] > 0
    assert {"kernels", "compiled", "device"} <= result.keys()


def test_optional_renderer_does_not_prevent_runs(monkeypatch):
    monkeypatch.setattr(checks, "run_probe", lambda *_, seconds: checks.ProbeResult(error="no EGL"))
    result = list(checks.renderer_checks())
    assert [finding.name for finding in result] == list(registry.built_in("renderer"))
    assert [finding.name for finding in result if finding.prevents] == [checks.DEFAULT_RENDERER]
    assert all(finding.remedy for finding in result)


def test_missing_model_suggests_an_alternative(monkeypatch):
    monkeypatch.setattr(checks, "run_probe", lambda *_, seconds: ProbeResult(error="no torch"))
    result = list(checks.engine_checks({"model": "nobody/nothing"}))
    model = find(result, "model")
    assert not model.works
    assert "--engine scripted" in model.detail
    assert find(result, "bundled model").works
    assert find(result, "transformers").remedy


def test_missing_libraries_name_their_packages(monkeypatch):
    library = system_libraries.SystemLibrary("libnone.so.7", "libnone7", "nothing")
    monkeypatch.setattr(system_libraries, "LIBRARIES", (library,))
    assert system_libraries.missing_libraries()[0] == library
    result = find(checks.machine_checks(Path()), "system libraries")
    assert not result.works
    assert not result.prevents
    assert "libnone.so.7" in result.detail
    assert result.remedy.startswith("sudo apt-get install libnone7")


def test_disk_of_a_missing_output_folder_is_checked(tmp_path):
    result = find(checks.machine_checks(tmp_path / "not" / "there" / "yet"), "disk")
    assert result.works
    assert str(tmp_path) in result.detail


def test_missing_required_package_prevents_runs(monkeypatch):
    assert checks._packages("").works
    monkeypatch.setattr(checks, "_version", lambda package: None)
    for extra, package, prevents in (("report", "matplotlib", False), ("", "numpy", True)):
        result = checks._packages(extra)
        assert not result.works
        assert result.prevents == prevents
        assert package in result.detail


def test_bundled_rooms_are_complete():
    result = find(checks.data_checks({}), "bundled rooms")
    assert result.works, result.detail


def test_missing_bundled_rooms_are_restored_by_the_doctor(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("render_agent.tasks.rooms.BUNDLED", tmp_path)
    for check in ("renderer_checks", "engine_checks", "machine_checks"):
        monkeypatch.setattr(checks, check, lambda *_, **__: iter(()))
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
    result = list(checks.data_checks(options))
    assert find(result, "VSI-Bench").detail == "3 questions"
    assert find(result, "scannet").detail.startswith("1 of 2 scans found")
    assert not find(result, "scannet").works
    assert "RENDER_AGENT_ARKITSCENES" in find(result, "arkitscenes").remedy


@pytest.mark.slow
def test_all_checks_as_json():
    command = [sys.executable, "-m", "render_agent", "doctor", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    output = json.loads(process.stdout)
    assert output["ready"] is True
    assert process.returncode == 0
    works = {finding["name"]: finding["works"] for finding in output["findings"]}
    for name in ("Python", "rasteriser", "scripted", "transformers", "bundled rooms"):
        assert works[name]
    assert {"model", "memory", "disk", "system libraries", "VSI-Bench"} <= works.keys()
    assert "Traceback" not in process.stdout + process.stderr


def test_annotations_are_counted_in_the_given_folder(tmp_path):
    folder = test_data("vsibench", "scannet_meta_info_val.json").parent
    options = {"questions": str(folder / "test.jsonl"), "annotations": str(folder)}
    result = find(checks.data_checks(options), "annotations")
    assert result.works
    assert result.detail.startswith("288 of 288 ")
    assert not find(
        checks.data_checks(options | {"annotations": str(tmp_path)}), "annotations"
    ).works


def test_probe_of_a_correct_model():
    result = checks.probe_model(str(small_model()), "cpu", "float32")
    assert result["caveats"] == []
    assert result["reuse"] == "keys"
    assert result["reproducible"] is None
    finding = checks.probe_check("small", result)
    assert finding.works
    assert "--reproducible on" in finding.detail


def test_probe_detects_results_that_depend_on_batch_composition(monkeypatch):
    """The run works, but `--reproducible on` would be refused."""
    linear = functional.linear

    def shape_dependent(inputs, weight, bias=None):
        return linear(inputs, weight, bias) * (1 + inputs.numel() % 61 * 1e-6)

    monkeypatch.setattr(FixedShapes, "sizes", lambda self, *sizes: sizes)
    loaded = open_model(str(small_model()), device="cpu", dtype="float32")
    monkeypatch.setattr(functional, "linear", shape_dependent)
    reason = checks._why_not_reproducible(loaded)
    assert "cpu" in reason
    sound = {"caveats": [], "reuse": "keys", "difference": 0.0, "complete": True, "seconds": 1.0}
    finding = checks.probe_check("small", {**sound, "reproducible": reason})
    assert finding.works
    assert reason in finding.detail


def test_probe_shows_the_caveats_of_the_start_check(monkeypatch):
    positions = prefill.token_positions
    monkeypatch.setattr(prefill, "token_positions", lambda *args: positions(*args) // 2)
    loaded = open_model(str(small_model()), device="cpu", dtype="float32")
    result = checks._probe_loaded(loaded)
    finding = checks.probe_check("small", {**result, "seconds": 1.0})
    assert not finding.works
    assert "pages off" in finding.detail
