"""`--model small` is the bundled model, wherever a model can be named."""

import math
import shutil
from pathlib import Path

import pytest
from factories.models import TRAINED, bundled_model, small_model
from factories.runs import NullObserver, make_config, make_questions, truncate_log
from safetensors import safe_open

import render_agent
from render_agent.cli.commands.doctor import checks, command
from render_agent.cli.commands.doctor.checks import Check, ProbeResult
from render_agent.engines.bundled_models import NOTES, suggest_models
from render_agent.engines.checkpoint.locate import describe_model, find_model
from render_agent.engines.transformers.model.load import open_model
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig, absolute_paths
from render_agent.runs.build import build
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import resume_run, start_run
from render_agent_lab.bench.schedules.compared_engines import load_benchmark_model

SHORT = {
    "engine": "transformers",
    "model": "small",
    "device": "cpu",
    "max_turns": 2,
    "max_new_tokens": 2,
    "no_guide": True,
    "image_size": (64, 48),
}


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    """The folder of the bundled model, or of its replacement if it is not trained yet."""
    folder = bundled_model()
    monkeypatch.setattr("render_agent.engines.bundled_models.FOLDER", folder.parent)
    return folder


@pytest.fixture
def copy(folder, tmp_path, monkeypatch):
    """A copy of the bundled model that a test can modify."""
    copy = Path(shutil.copytree(folder, tmp_path / "models" / "small"))
    monkeypatch.setattr("render_agent.engines.bundled_models.FOLDER", copy.parent)
    return copy


def corrupt(file):
    """Change one of the last bytes of a file."""
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)


@pytest.fixture
def working_directory(tmp_path, monkeypatch):
    """A working directory that contains another model in a directory of the same name."""
    shutil.copytree(small_model(), tmp_path / "small")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_bundled_name_takes_precedence_over_a_directory(folder, working_directory):
    assert find_model("small").folder == folder
    assert find_model("./small").folder.resolve() == working_directory / "small"
    bundled, other = describe_model("small"), describe_model("./small")
    assert bundled["weights"] != other["weights"]
    assert bundled["note"] == NOTES["small"]
    assert "note" not in other


def test_only_paths_are_made_absolute(working_directory):
    options = {"model": "small", "verifier": ("judge:small", "judge:./small")}
    assert absolute_paths(options) == {
        "model": "small",
        "verifier": ("judge:small", f"judge:{working_directory}/small"),
    }
    assert absolute_paths({"model": "./small"}) == {"model": f"{working_directory}/small"}


def test_file_with_the_bundled_name_is_ignored(folder, tmp_path, monkeypatch):
    (tmp_path / "small").write_text("no model")
    monkeypatch.chdir(tmp_path)
    assert RunConfig(batch=True, model="small").absolute().model == "small"
    assert find_model("small").folder == folder


def test_bundled_model_has_no_revision():
    with pytest.raises(UsageError, match="small"):
        find_model("small", "main")


def test_missing_bundled_model_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("render_agent.engines.bundled_models.FOLDER", tmp_path)
    with pytest.raises(SetupError, match=r"small.*--engine scripted") as caught:
        find_model("small")
    assert "--model small" not in str(caught.value)
    monkeypatch.setattr(checks, "run_probe", lambda *_, seconds: ProbeResult({"detail": "runs"}))
    (finding,) = [each for each in checks.engine_checks({}) if each.name == "bundled model"]
    assert not finding.works
    assert finding.detail == str(caught.value)
    assert not finding.prevents


def test_bundled_model_is_suggested_only_if_it_exists(tmp_path, monkeypatch):
    monkeypatch.setattr("render_agent.engines.bundled_models.FOLDER", tmp_path)
    assert suggest_models() == "--engine scripted"
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text("{}")
    assert "--model small" in suggest_models()


def test_weights_are_stored_in_float16_and_run_in_float32_on_a_cpu(folder):
    with safe_open(folder / "model.safetensors", "pt") as weights:
        dtypes = {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
    assert dtypes == {"F16"}
    loaded = open_model("small", device="cpu")
    assert {str(weight.dtype) for weight in loaded.model.parameters()} == {"torch.float32"}


@pytest.mark.skipif(not TRAINED, reason="the bundled model is not trained yet")
def test_bundled_model_is_small(folder):
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 25e6
    with safe_open(folder / "model.safetensors", "pt") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
    assert 1e6 < sum(map(math.prod, shapes)) <= 12e6


def complete_run(config):
    run = start_run(config)
    try:
        return run.path, run.go(NullObserver())
    finally:
        run.close()


@pytest.mark.slow
def test_run_records_name_weights_and_note(tmp_path, working_directory):
    config = make_config(tmp_path, make_questions(tmp_path, 2), **SHORT).absolute()
    path, results = complete_run(config)
    record = RunData(path).record
    assert record["config"]["model"] == record["engine"]["model"] == "small"
    assert record["engine"]["weights"] == describe_model("small")["weights"]
    assert results["counts"]["failed"] == 0
    assert NOTES["small"] in results["notes"]


def test_run_resumes_only_with_the_same_model(tmp_path, copy):
    path, _ = complete_run(make_config(tmp_path, make_questions(tmp_path, 2), **SHORT))
    truncate_log(path, 1)
    for file in ("model.safetensors", "tokenizer.json"):
        content = (copy / file).read_bytes()
        if file == "model.safetensors":
            corrupt(copy / file)
        else:
            (copy / file).write_bytes(content + b"\n")
        with pytest.raises(SetupError, match="small"):
            resume_run(RunData(path), {})
        (copy / file).write_bytes(content)
    run = resume_run(RunData(path), {})
    assert all(state.active for state in run.states)
    run.close()


def test_judge_resumes_only_with_the_same_model(tmp_path, copy):
    options = SHORT | {"engine": "scripted", "model": "wanderer", "agent": "lookahead:2"}
    options |= {"verifier": ("judge:small",), "temperature": 1.0}
    config = make_config(tmp_path, make_questions(tmp_path, 1), **options)
    assert build(config).verifiers[0].own_config(config).model == "small"
    run = start_run(config.absolute())
    run.close()
    assert RunData(run.path).record["sha256"]["verifiers"].keys() == {"judge:small"}
    corrupt(copy / "model.safetensors")
    with pytest.raises(SetupError, match="judge:small"):
        resume_run(RunData(run.path), {})


@pytest.mark.slow
def test_single_question_from_the_command_line(type_in, tmp_path):
    make_questions(tmp_path, 1)
    question = ("--ply", "room.ply", "--question", "How many boxes are there?", "--model", "small")
    short = ("--image-size", "64x48", "--max-turns", 1, "--max-new-tokens", 2, "--device", "cpu")
    code, out, err = type_in(*question, *short, folder=tmp_path)
    assert (code, out) == (0, "")
    assert "scan: mesh, " in err
    (run,) = list_runs(tmp_path / "experiment_logs")
    assert RunData(run).record["engine"]["model"] == "small"


@pytest.mark.slow
def test_bundled_model_from_python_and_in_benchmarks(folder):
    with render_agent.load_engine(model="small", device="cpu") as engine:
        assert repr(engine) == "<engine transformers, model small>"
        assert engine.description["weights"] == describe_model(str(folder))["weights"]
    measured = load_benchmark_model(RunConfig(batch=True, model="small", device="cpu"), None)
    assert measured.model.config.model_type == "qwen3_vl"


@pytest.mark.parametrize(
    ("missing", "expected"), [((), "--model small"), (("bundled model",), "--engine scripted")]
)
def test_doctor_suggests_a_first_run(tmp_path, monkeypatch, capsys, missing, expected):
    names = [name for name in ("bundled model", "transformers") if name not in missing]
    checks = [Check("engines", name, True, "runs") for name in names]
    monkeypatch.setattr(command, "run_checks", lambda *_: checks)
    assert command.run_doctor({"output": str(tmp_path)}, as_json=False) == 0
    assert f"rooms {expected}" in capsys.readouterr().out
