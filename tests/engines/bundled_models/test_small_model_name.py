"""`--model small` is the model that comes with the program, wherever a model is named."""

import math
import shutil
from pathlib import Path

import pytest
from factories.models import TRAINED, bundled_model, small_model
from factories.runs import Silent, make_config, make_questions
from safetensors import safe_open

import render_agent
from render_agent.cli.commands.doctor import command, engines
from render_agent.cli.commands.doctor.checks import Check, ProbeResult
from render_agent.engines.bundled_models import NOTES, instead
from render_agent.engines.checkpoint.locate import describe_model, find_model
from render_agent.engines.transformers.model.load import open_model
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig, absolute_paths
from render_agent.runs.build import build
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import resume_run, start_run
from render_agent_lab.bench.compared_engines import load

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
    """The folder of the bundled model; its stand-in where there is none yet."""
    found = bundled_model()
    monkeypatch.setattr("render_agent.engines.bundled_models.FOLDER", found.parent)
    return found


@pytest.fixture
def copy(folder, tmp_path, monkeypatch):
    """A bundled model that a test may change."""
    made = Path(shutil.copytree(folder, tmp_path / "models" / "small"))
    monkeypatch.setattr("render_agent.engines.bundled_models.FOLDER", made.parent)
    return made


def spoil(file):
    """Change one of its last bytes."""
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder that has a directory of the same name, with another model."""
    shutil.copytree(small_model(), tmp_path / "small")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_name_goes_before_a_directory_which_is_reached_by_its_path(folder, here):
    assert find_model("small").folder == folder
    assert find_model("./small").folder.resolve() == here / "small"
    told, other = describe_model("small"), describe_model("./small")
    assert told["weights"] != other["weights"]
    assert told["note"] == NOTES["small"]
    assert "note" not in other


def test_only_the_path_is_made_absolute(here):
    given = {"model": "small", "verifier": ("judge:small", "judge:./small")}
    assert absolute_paths(given) == {
        "model": "small",
        "verifier": ("judge:small", f"judge:{here}/small"),
    }
    assert absolute_paths({"model": "./small"}) == {"model": f"{here}/small"}


def test_a_file_of_that_name_changes_nothing(folder, tmp_path, monkeypatch):
    (tmp_path / "small").write_text("no model")
    monkeypatch.chdir(tmp_path)
    assert RunConfig(batch=True, model="small").absolute().model == "small"
    assert find_model("small").folder == folder


def test_a_bundled_model_has_no_revision():
    with pytest.raises(UsageError, match="small"):
        find_model("small", "main")


def test_where_it_is_missing_one_sentence_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("render_agent.engines.bundled_models.FOLDER", tmp_path)
    with pytest.raises(SetupError, match=r"small.*--engine scripted") as caught:
        find_model("small")
    assert "--model small" not in str(caught.value)
    monkeypatch.setattr(engines, "run_probe", lambda *_, seconds: ProbeResult({"detail": "runs"}))
    (finding,) = [each for each in engines.engine_checks({}) if each.name == "bundled model"]
    assert not finding.works
    assert finding.detail == str(caught.value)
    assert not finding.prevents


def test_who_has_no_weights_is_told_of_it_where_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("render_agent.engines.bundled_models.FOLDER", tmp_path)
    assert instead() == "--engine scripted"
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text("{}")
    assert "--model small" in instead()


def test_it_is_kept_in_half_precision_and_runs_on_a_processor_in_single(folder):
    with safe_open(folder / "model.safetensors", "pt") as weights:
        kinds = {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
    assert kinds == {"F16"}
    loaded = open_model("small", device="cpu")
    assert {str(weight.dtype) for weight in loaded.model.parameters()} == {"torch.float32"}


@pytest.mark.skipif(not TRAINED, reason="the bundled model is not there yet")
def test_it_is_as_small_as_it_should_be(folder):
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 25e6
    with safe_open(folder / "model.safetensors", "pt") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
    assert 1e6 < sum(map(math.prod, shapes)) <= 12e6


def played(config):
    run = start_run(config)
    try:
        return run.path, run.go(Silent())
    finally:
        run.close()


@pytest.mark.slow
def test_a_run_records_its_name_its_weights_and_what_it_is(tmp_path, here):
    config = make_config(tmp_path, make_questions(tmp_path, 2), **SHORT).absolute()
    path, results = played(config)
    record = RunData(path).record
    assert record["config"]["model"] == record["engine"]["model"] == "small"
    assert record["engine"]["weights"] == describe_model("small")["weights"]
    assert results["counts"]["failed"] == 0
    assert NOTES["small"] in results["notes"]


def cut(path):
    """Leave a run as it was after its first turn."""
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(lines[0])
    (path / "results.json").unlink()


def test_a_run_goes_on_with_the_model_that_it_began_with_alone(tmp_path, copy):
    path, _ = played(make_config(tmp_path, make_questions(tmp_path, 2), **SHORT))
    cut(path)
    for file in ("model.safetensors", "tokenizer.json"):
        content = (copy / file).read_bytes()
        if file == "model.safetensors":
            spoil(copy / file)
        else:
            (copy / file).write_bytes(content + b"\n")
        with pytest.raises(SetupError, match="small"):
            resume_run(RunData(path), {})
        (copy / file).write_bytes(content)
    run = resume_run(RunData(path), {})
    assert all(state.active for state in run.states)
    run.close()


def test_a_judge_goes_on_with_the_model_that_it_began_with_alone(tmp_path, copy):
    more = {"engine": "scripted", "model": "wanderer", "agent": "lookahead:2", "max_turns": 2}
    judge = {"verifier": ("judge:small",), "temperature": 1.0}
    config = make_config(tmp_path, make_questions(tmp_path, 1), **SHORT | more | judge)
    assert build(config).verifiers[0].own_config(config).model == "small"
    run = start_run(config.absolute())
    run.close()
    assert RunData(run.path).record["sha256"]["verifiers"].keys() == {"judge:small"}
    spoil(copy / "model.safetensors")
    with pytest.raises(SetupError, match="judge:small"):
        resume_run(RunData(run.path), {})


@pytest.mark.slow
def test_one_question_from_the_command_line(type_in, tmp_path):
    make_questions(tmp_path, 1)
    asked = ("--ply", "room.ply", "--question", "How many boxes are there?", "--model", "small")
    short = ("--image-size", "64x48", "--max-turns", 1, "--max-new-tokens", 2, "--device", "cpu")
    code, out, err = type_in(*asked, *short, folder=tmp_path)
    assert (code, out) == (0, "")
    assert "the run: " in err
    assert "\nscan: a mesh of " in err
    (run,) = list_runs(tmp_path / "experiment_logs")
    assert RunData(run).record["engine"]["model"] == "small"


@pytest.mark.slow
def test_from_python_and_in_measurements(folder):
    with render_agent.load_engine(model="small", device="cpu") as engine:
        assert repr(engine) == "<engine transformers, model small>"
        assert engine.description["weights"] == describe_model(str(folder))["weights"]
    measured = load(RunConfig(batch=True, model="small", device="cpu"), None)
    assert measured.model.config.model_type == "qwen3_vl"


@pytest.mark.parametrize(
    ("missing", "told"), [((), "--model small"), (("bundled model",), "--engine scripted")]
)
def test_the_doctor_names_the_first_run(tmp_path, monkeypatch, capsys, missing, told):
    found = [Check("engines", name, True, "runs") for name in ("bundled model", "transformers")]
    left = [finding for finding in found if finding.name not in missing]
    monkeypatch.setattr(command, "run_checks", lambda *_: left)
    assert command.run_doctor({"output": str(tmp_path)}, as_json=False) == 0
    assert f"rooms {told}" in capsys.readouterr().out
