"""Tests of experiment trackers with live, resumed and exported runs, read back with the trackers' own readers."""

import sys
import time
from types import SimpleNamespace

import pytest
from factories.exports import export, make_run
from factories.runs import NullObserver, make_config, make_questions, walking_engine

from render_agent.errors import EngineError, SetupError
from render_agent.options import public_options
from render_agent.runs.loggers import TensorBoardLogger, TrackioLogger, logged
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run


def run_and_collect_messages(run, engine, messages=()):
    """Continue a run with its loggers; return their warnings."""
    messages = list(messages)
    try:
        with logged(run, NullObserver(), messages.append) as observer:
            run.go(observer, lambda config, questions: engine)
    finally:
        run.close()
    return messages


def fail_after(engine, calls):
    """Make an engine fail after the given number of calls, and return it."""
    answer, remaining = engine.answer, iter(range(calls))

    def answer_or_fail(requests):
        if next(remaining, None) is None:
            raise EngineError("the server stopped responding")
        return answer(requests)

    engine.answer = answer_or_fail
    return engine


def scalars(folder):
    """Return (step, value) pairs by tag, and the tags of texts, as read by TensorBoard."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    tags = read.Tags()
    values = {tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in tags["scalars"]}
    return values, set(tags["tensors"])


def test_tensorboard_logs_each_turn_once_live_resumed_or_exported(tmp_path):
    pytest.importorskip("tensorboard")
    questions = make_questions(tmp_path, 4)
    config = make_config(tmp_path, questions, log_to=("tensorboard",), max_turns=4)
    run = start_run(config)
    with pytest.raises(EngineError):
        run_and_collect_messages(run, fail_after(walking_engine(4), 2))
    run = resume_run(RunData(run.path), {})
    assert RunData(run.path).turns
    assert run_and_collect_messages(run, walking_engine(4)) == []
    folder = tmp_path / "runs" / "tensorboard" / run.path.name
    live, texts = scalars(folder)
    results = RunData(run.path).saved_results
    turns = results["totals"]["turns"]
    assert [step for step, _ in live["questions/done"]] == list(range(1, turns + 1))
    assert live["tokens/out"][-1] == (turns, results["totals"]["tokens"]["out"])
    score = results["official_over_scored"]["score"]
    assert live["score"][-1] == (turns, pytest.approx(score))
    assert live["final/score"] == [(turns, pytest.approx(score))]
    assert "options/text_summary" in texts
    for _ in range(2):  # exporting again replaces the existing log
        export(run.path, "--format", "tensorboard")
        assert scalars(folder)[0] == live


def test_finished_run_names_where_to_view_the_log(tmp_path):
    pytest.importorskip("tensorboard")
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), log_to=("tensorboard",)))
    noted = []
    with logged(run, NullObserver(), pytest.fail, noted.append) as observer:
        run.go(observer, lambda config, questions: walking_engine(2))
    run.close()
    (line,) = noted
    assert f"tensorboard --logdir {tmp_path}/runs/tensorboard" in line


def test_trackio_uses_the_wandb_interface(tmp_path, monkeypatch, capsys):
    logs, opened = [], {}

    class Run:
        def log(self, figures, step):
            logs.append((step, figures))

        def finish(self):
            print("* Run finished")  # noqa: T201

    def init(**options):
        print("* trackio show")  # noqa: T201
        opened.update(options)
        return Run()

    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace(init=init))
    run = RunData(make_run(tmp_path))
    trackio = TrackioLogger(run, overwrite=True)
    trackio.log({"score": 50.0}, 3)
    trackio.close()
    assert capsys.readouterr().out == ""
    assert logs == [(3, {"score": 50.0})]
    assert opened["name"].startswith(run.name)
    assert opened["config"]["report"] == f"{run.name}/report/index.html"


def test_failing_logger_does_not_stop_the_run(tmp_path):
    pytest.importorskip("tensorboard")
    config = make_config(tmp_path, make_questions(tmp_path, 2), log_to=("tensorboard",))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "tensorboard").write_text("a file where a folder should be")
    run = start_run(config)
    assert (
        len(
            [
                message
                for message in run_and_collect_messages(run, walking_engine(2))
                if "tensorboard" in message
            ]
        )
        == 1
    )
    assert RunData(run.path).saved_results["counts"]["answered"] == 2


def test_logger_that_calls_sys_exit_is_reported(tmp_path, monkeypatch):
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), log_to=("tensorboard",)))

    def exits(*arguments, **options):
        sys.exit("no such project")

    monkeypatch.setattr(TensorBoardLogger, "__init__", exits)
    (sentence,) = run_and_collect_messages(run, walking_engine(2))
    assert all(text in sentence for text in ("tensorboard", "no such project"))
    assert RunData(run.path).saved_results["counts"]["answered"] == 2


def test_missing_logger_is_reported_before_the_run_starts(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    config = make_config(tmp_path, make_questions(tmp_path, 1), log_to=("mlflow",))
    with pytest.raises(SetupError, match=r'--log-to mlflow needs mlflow.*"render_agent\[mlflow\]"'):
        start_run(config)
    assert not (tmp_path / "runs").exists()


def test_public_options_have_no_keys_paths_or_servers(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sesame-open-1234")
    options = public_options(
        {
            "ply": "/srv/scans/room.ply",
            "verifier": ["learned:/srv/scans/v", "geometry"],
            "engine_option": ["api_key=sesame-open-1234", "top_k=3"],
            "base_url": ["http://me:secret@host/v1"],
            "output": "/srv/scans/runs",
            "model": "Qwen/Qwen3-VL-8B-Instruct",
            "question": "is sesame-open-1234 a key?",
            "limit": 3,
        }
    )
    assert options == {
        "ply": "room.ply",
        "verifier": ["learned:v", "geometry"],
        "engine_option": ["top_k=3"],
        "model": "Qwen/Qwen3-VL-8B-Instruct",
        "question": "is [key] a key?",
        "limit": 3,
    }


@pytest.mark.slow  # wandb starts a separate process
def test_wandb_offline_has_turns_and_scores(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = make_run(tmp_path)
    export(run, "--format", "wandb")
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    turns = RunData(run).saved_results["totals"]["turns"]
    for _ in range(100):  # wandb's process may still write after the run has finished
        if file.read_bytes().count(b"tokens/out") >= turns:
            break
        time.sleep(0.1)
    assert b"final/score" in file.read_bytes()
