"""Runs distributed over Ray workers give the results of a single process, even if workers are killed."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from factories.models import bundled_model
from factories.runs import (
    NullObserver,
    comparable_results,
    evidence_by_turn,
    finish_run,
    images,
    make_config,
    make_questions,
    resume,
    transcripts,
)
from factories.states import question, turn
from hypothesis import given
from hypothesis import strategies as st

from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.errors import EngineError, RunStoppedError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import resume_run, start_run
from render_agent.runs.workers import driver as driver_module
from render_agent.runs.workers.cluster import _connect, cluster, resources
from render_agent.runs.workers.driver import (
    MAX_BATCHES_PER_TASK,
    MAX_SCENE_DEATHS,
    Driver,
    worker_share,
)

# Twenty questions about four scenes.
ROOMS = {
    "benchmark": "rooms",
    "scene": ("room00", "room01", "room02", "room03"),
    "type": ("object_counting", "route_planning"),
    "batch_size": 4,
}

POLICY = """
import os, signal, time
from pathlib import Path
from render_agent.engines.scripted.blind_policies import ExplorerPolicy

FILE = Path(__file__).with_suffix(".file")


class Eventful(ExplorerPolicy):
    "Something happens whenever it is asked for the third turn of a question about room01."

    def __init__(self, questions, seed):
        super().__init__(questions, seed)
        self.scenes = {question.id: question.scene for question in questions}

    def reply(self, request):
        if self.scenes[request.question_id] == "room01" and request.turn == 2:
            happens()
        return super().reply(request)


policy = Eventful
"""

HANGS = """
def happens():
    while not FILE.exists():
        time.sleep(0.05)
"""


RAISES = """
def happens():
    if not FILE.exists():
        raise OSError("the device is gone")
"""


def dies(times, by="SIGKILL"):
    return f"""
def happens():
    died = FILE.read_bytes() if FILE.exists() else b""
    if len(died) < {times}:
        FILE.write_bytes(died + b"x")
        os.kill(os.getpid(), signal.{by})
"""


@pytest.fixture(scope="module")
def ray():
    """One local Ray for all tests of this module, which runs reuse.

    Ray starts a process per core whenever a program connects, which would be wasted here.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_prestart_worker_first_driver", "0")
        with cluster(None, 3) as started:
            yield started


@pytest.fixture(scope="module")
def single_process(tmp_path_factory):
    """The run folder of a single process."""
    return play(rooms(tmp_path_factory.mktemp("alone")))


def rooms(folder, **options):
    return make_config(folder, "rooms", **ROOMS | options)


def play(config, observer=None, **options):
    run = start_run(config.absolute())
    try:
        run.go(observer or NullObserver(), **options)
    finally:
        run.close()
    return run.path


def policy(folder, happens):
    path = folder / "eventful.py"
    path.write_text(POLICY + happens)
    return str(path)


def has_unique_turns(path):
    turns = Counter((line["question_id"], line["turn"]) for line in RunData(path).lines())
    return max(turns.values()) == 1


def assert_equal(path, reference):
    assert transcripts(path) == transcripts(reference)
    assert comparable_results(path) == comparable_results(reference)
    assert images(path) == images(reference)
    assert not [*path.glob("views/**/.*")]


@pytest.mark.slow
def test_workers_make_the_same_choices(tmp_path, ray):
    options = {
        "scene": ("room00", "room01"),
        "type": ("object_counting", "object_rel_distance"),
        "agent": "lookahead:2",
        "verifier": ("random", "geometry"),
        "model": "wanderer",
        "temperature": 1.0,
        "max_turns": 2,
    }
    single = play(rooms(tmp_path / "one", **options))
    two = play(rooms(tmp_path / "two", **options, workers=2))
    assert_equal(two, single)
    assert evidence_by_turn(two) == evidence_by_turn(single)
    weighed = [result for result in evidence_by_turn(single).values() if result["weighed"]]
    assert len(weighed) >= 5
    assert {tuple(j["verifier"] for j in result["judgements"]) for result in weighed} == {
        ("random", "geometry")
    }


def command(*options, **keywords):
    line = [sys.executable, "-m", "render_agent", *map(str, options)]
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords
    )


def flags(config):
    return [
        "--batch",
        *("--benchmark", "rooms", "--engine", "scripted", "--image-size", "96x72"),
        *("--start", config.start),
        *(part for scene in config.scene for part in ("--scene", scene)),
        *(part for kind in config.type for part in ("--type", kind)),
        *("--batch-size", config.batch_size, "--output", config.output),
        *(("--model", config.model) if config.model else ()),
    ]


def worker_processes(log):
    """Return the process ids of workers named in a log."""
    return [
        int(number) for number in re.findall(r"worker \d+ \(process (\d+) on \S+\) is ready", log)
    ]


def has_ended(process, seconds=120):
    """Return True if a process ends within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_two_workers_match_a_single_process(tmp_path, ray, single_process, caplog):
    caplog.set_level(logging.INFO)
    path = play(rooms(tmp_path, workers=2))
    assert_equal(path, single_process)
    assert has_unique_turns(path)
    assert len(RunData(path).lines()) == len(RunData(single_process).lines())
    assert len({*worker_processes(caplog.text)} - {os.getpid()}) == 2


@pytest.mark.slow
def test_model_replicas_match_a_single_process(tmp_path, ray):
    options = {
        "scene": ("room00", "room01"),
        "type": ("object_counting",),
        "engine": "transformers",
        "model": str(bundled_model()),
        "dtype": "float32",
        "device": "cpu",
        "max_turns": 3,
        "max_new_tokens": 12,
        "image_size": (96, 64),
        "no_guide": True,
    }
    reference = play(rooms(tmp_path, **options))
    path = play(rooms(tmp_path / "replicas", **options, devices=("cpu", "cpu")))
    assert_equal(path, reference)
    (check,) = RunData(path).start_checks  # that of both workers
    assert check["caveats"] == []
    replies = {turn["reply"] for turns in transcripts(path).values() for turn in turns}
    assert len(replies) > 1


class Killer(NullObserver):
    """Kills a different worker of a run at each of some numbers of turns."""

    def __init__(self, log, turns):
        self.log, self.turns, self.taken, self.killed = log, [*turns], 0, []

    def on_turn(self, state, turn):
        self.taken += 1
        if self.turns and self.taken >= self.turns[0]:
            alive = [
                number for number in worker_processes(self.log.text) if number not in self.killed
            ]
            if alive:
                self.turns.pop(0)
                self.killed.append(alive[0])
                os.kill(alive[0], signal.SIGKILL)


@pytest.mark.slow
def test_killed_workers_do_not_change_results(tmp_path, ray, single_process, caplog):
    caplog.set_level(logging.INFO)
    killer = Killer(caplog, [1])  # a second worker might have the same scene
    path = play(rooms(tmp_path, workers=2, batch_size=20), killer)  # with two scenes in its task
    assert len(killer.killed) == 1
    assert_equal(path, single_process)
    assert has_unique_turns(path)
    assert all(has_ended(process) for process in killer.killed)


@pytest.mark.slow
def test_stalled_worker_is_replaced(tmp_path, ray, single_process, monkeypatch):
    monkeypatch.setattr(driver_module, "STALL_SECONDS", 20.0)
    model = policy(tmp_path, dies(1, "SIGSTOP"))
    path = play(rooms(tmp_path, model=model, workers=2))
    assert transcripts(path) == transcripts(single_process)
    assert images(path) == images(single_process)
    assert has_unique_turns(path)


@pytest.mark.slow
def test_scene_that_kills_workers_fails_alone_and_can_be_retried(tmp_path, ray, single_process):
    config = rooms(
        tmp_path, workers=2, batch_size=20, model=policy(tmp_path, dies(MAX_SCENE_DEATHS))
    )
    path = play(config)
    failed = {
        row["question_id"]
        for row in RunData(path).saved_results["questions"]
        if row["status"] == "failed"
    }
    deadly = {question.id for question in RunData(path).questions if question.scene == "room01"}
    assert failed == deadly
    assert has_unique_turns(path)
    errors = {line["error"] for line in RunData(path).lines()} - {None}
    assert len(errors) == 1
    assert "room01" in errors.pop()
    resume(path, allow_code=True, workers=1)
    assert transcripts(path) == transcripts(single_process)
    assert images(path) == images(single_process)
    assert RunData(path).saved_results["counts"]["failed"] == 0


def done_in(lines):
    """Return the questions whose lines set done."""
    turns = [json.loads(line) for line in lines]
    return {turn["question_id"] for turn in turns if turn["action"].get("done")}


@pytest.mark.slow
def test_single_process_run_resumes_with_workers(tmp_path, ray, single_process):
    path = play(rooms(tmp_path))
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:30]) + lines[30][:-9])
    started = {json.loads(line)["question_id"] for line in lines[:30]} - done_in(lines[:30])
    for number, file in enumerate(sorted(path.glob("views/*/*.png"))):
        if file.parent.name in started and number % 3:
            file.unlink()
    (path / "results.json").unlink()
    resume(path, allow_code=True, workers=2)
    assert_equal(path, single_process)
    assert has_unique_turns(path)


def wait_for_turns(driver, folder, count):
    """Wait until the only run in a folder has a number of turns."""
    turns, deadline = 0, time.monotonic() + 300
    while turns < count and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        logs = [*folder.glob("runs/*/turns.jsonl")]
        turns = logs[0].read_bytes().count(b"\n") if logs else 0


@pytest.mark.slow
def test_killed_driver_leaves_no_processes_and_its_run_resumes(tmp_path, single_process):
    config = rooms(tmp_path, model=policy(tmp_path, HANGS))
    with command(*flags(config), "--workers", 2) as driver:
        wait_for_turns(driver, tmp_path, 10)
        driver.kill()
        driver.communicate()
    (path,) = list_runs(tmp_path / "runs")
    assert not (path / "results.json").exists()
    assert len(RunData(path).lines()) >= 10
    workers = worker_processes((path / "run.log").read_text())
    assert len(workers) == 2
    assert all(has_ended(process) for process in workers)
    (tmp_path / "eventful.file").touch()
    resume(path, allow_code=True, workers=1)
    assert transcripts(path) == transcripts(single_process)
    assert images(path) == images(single_process)
    assert has_unique_turns(path)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_driver_stops_its_workers(tmp_path, ray, number, code):
    config = rooms(tmp_path, model=policy(tmp_path, HANGS))
    address = ray.get_runtime_context().gcs_address
    with command(*flags(config), "--ray", address) as driver:
        deadline = time.monotonic() + 300
        while not [*tmp_path.glob("runs/*/turns.jsonl")] and time.monotonic() < deadline:
            time.sleep(0.02)
        driver.send_signal(number)
        _, output = driver.communicate(timeout=300)
    assert driver.returncode == code, output
    assert "Resume with: " in output
    assert "Traceback" not in output
    (path,) = list_runs(tmp_path / "runs")
    assert not (path / "results.json").exists()
    workers = worker_processes((path / "run.log").read_text())
    assert workers
    assert all(has_ended(process) for process in workers)


@pytest.mark.slow
def test_cluster_run_prints_only_json(tmp_path, ray, single_process, monkeypatch):
    """A worker dies, which Ray reports on standard output. The cluster requires the token of this machine."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    config = rooms(tmp_path, model=policy(tmp_path, dies(1)))
    address = ray.get_runtime_context().gcs_address
    with command(*flags(config), "--json", "--workers", 2, "--ray", address) as driver:
        output, printed = driver.communicate(timeout=300)
    assert driver.returncode == 0, printed
    (path,) = list_runs(tmp_path / "runs")
    assert json.loads(output) == RunData(path).saved_results
    assert transcripts(path) == transcripts(single_process)
    assert "died" in (path / "run.log").read_text()
    assert "ray" not in printed.lower()


@pytest.mark.slow
def test_error_in_every_worker_stops_the_run(tmp_path, ray, single_process):
    raises = policy(tmp_path, RAISES)
    Path(raises).write_text(Path(raises).read_text().replace('== "room01" and', '!= "" and'))
    run = start_run(rooms(tmp_path, workers=2, model=raises).absolute())
    with pytest.raises(RunStoppedError, match="device is gone"):
        finish_run(run)
    assert 5 <= sum(line["error"] is not None for line in RunData(run.path).lines()) < 20
    (tmp_path / "eventful.file").touch()
    resume(run.path, allow_code=True, workers=2)
    assert transcripts(run.path) == transcripts(single_process)


@pytest.mark.slow
def test_failed_engine_closes_only_its_worker(tmp_path, ray, single_process):
    marks = [tmp_path / "first", tmp_path / "second"]

    def make_breaking(config, questions):
        from render_agent.runs.build import make_engine

        engine = make_engine(config, questions)
        answer = engine.answer

        def fail_once_per_mark(requests):
            mark = next((mark for mark in marks if not mark.exists()), None)
            if engine.calls > 3 and mark is not None:
                mark.touch()
                raise EngineError("the GPU has fallen off the bus")
            return answer(requests)

        engine.answer = fail_once_per_mark
        return engine

    marks[1].touch()
    path = play(rooms(tmp_path, workers=2), make_engine=make_breaking)
    assert marks[0].exists()
    assert_equal(path, single_process)
    for mark in marks:
        mark.unlink()
    address = ray.get_runtime_context().gcs_address
    with pytest.raises(EngineError, match="the GPU has fallen off the bus"):
        play(rooms(tmp_path / "only", ray=address), make_engine=make_breaking)


@pytest.mark.slow
def test_setup_error_in_workers(tmp_path, ray):
    policy = tmp_path / "broken.py"
    policy.write_text("def policy(questions, seed):\n    raise ValueError('no such thing')\n")
    with pytest.raises(SetupError) as alone:
        play(rooms(tmp_path, model=str(policy)))
    with pytest.raises(SetupError) as in_worker:
        play(
            rooms(tmp_path / "there", model=str(policy), ray=ray.get_runtime_context().gcs_address)
        )
    assert str(in_worker.value) == str(alone.value)


def test_invalid_clusters_are_refused_early(tmp_path, monkeypatch):
    config = make_config(tmp_path, make_questions(tmp_path))
    with pytest.raises(SetupError, match="no Ray cluster answers there"):
        start_run(replace(config, ray="127.0.0.1:1"))
    for address in ("nowhere", "ray://127.0.0.1:10001"):
        with pytest.raises(SetupError, match=f"--ray {address} is not an address.*HOST:6379"):
            start_run(replace(config, ray=address))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SetupError, match=r'pip install "render_agent\[ray\]"'):
        start_run(replace(config, workers=2))
    assert not (tmp_path / "runs").exists()


def test_ray_start_failure_names_the_option():
    def init(**_):
        raise Exception("The current node timed out during startup.")

    with pytest.raises(SetupError, match=r"timed out .*--workers"):
        _connect(SimpleNamespace(init=init), None, 2)
    with pytest.raises(SetupError, match=r"--ray auto.*RAY_AUTH_MODE=token"):
        _connect(SimpleNamespace(init=init), "auto", 0)


def test_devices_define_workers():
    with pytest.raises(UsageError, match="--devices names 2 devices"):
        build(RunConfig(batch=True, devices=("cpu", "cpu"), workers=3))
    assert RunConfig(batch=True).alone
    for options in ({"devices": ("cuda:1",)}, {"workers": 2}, {"ray": "auto"}):
        assert not RunConfig(batch=True, **options).alone


@pytest.mark.parametrize(
    ("options", "gpus", "requested"),
    [
        ({"engine": "transformers", "device": "cuda:0"}, 8, 1),
        ({"engine": "transformers"}, 8, 1),
        ({"engine": "transformers"}, 0, 0),
        ({"engine": "transformers", "device": "cpu"}, 8, 0),
        ({"engine": "vllm", "tensor_parallel": 4}, 8, 4),
        ({"engine": "openai"}, 8, 0),
        ({"engine": "transformers", "device": "cuda:1"}, None, 0),  # named, on this machine
    ],
)
def test_cluster_workers_request_gpus(options, gpus, requested):
    assert resources(RunConfig(batch=True, **options), gpus)["num_gpus"] == requested


def test_workers_and_devices_replace_each_other_when_resuming(tmp_path):
    questions = make_questions(tmp_path)
    run = start_run(make_config(tmp_path, questions, devices=("cpu", "cpu")))
    run.close()
    for changes, workers, devices in (
        ({"workers": 1}, 1, ()),
        ({"workers": 3}, 3, ()),
        ({"devices": ("cpu",)}, 1, ("cpu",)),
        ({}, 1, ("cpu", "cpu")),
    ):
        resumed = resume_run(RunData(run.path), changes)
        resumed.close()
        assert (resumed.config.workers, resumed.config.devices) == (workers, devices)


@given(st.integers(1, 5000), st.integers(1, 128), st.integers(1, 16), st.data())
def test_task_size(questions, batch_size, workers, data):
    free = data.draw(st.integers(1, workers))
    size = worker_share(questions, batch_size, workers, free)
    assert 1 <= size <= min(questions, MAX_BATCHES_PER_TASK * batch_size)
    if questions >= 4 * batch_size * workers:
        assert size >= 2 * batch_size
    if free == workers and questions <= workers * batch_size:
        assert size == -(-questions // workers)


class Idle:
    """A stand-in for Ray, an actor, a worker and its methods; nothing is started."""

    def put(self, value):
        return value

    def kill(self, worker):
        pass

    def __call__(self, *arguments):
        return self

    def __getattr__(self, name):
        return self

    def options(self, **arguments):
        return self


class Lines:
    """A log of the ids of failed questions."""

    def __init__(self):
        self.failed = []

    def append(self, failure):
        self.failed.append(failure.question_id)

    def sync(self):
        pass


def driver_of(scenes, workers, **options):
    """Return a driver with idle workers and three questions about each scene, and their states."""
    states = [
        QuestionState(question(id=f"{scene}{n}", scene=scene), scenes=None, max_turns=2)
        for scene in scenes
        for n in range(3)
    ]
    config = RunConfig(batch=True, **options)
    driver = Driver(Idle(), [config] * workers, None, states, Lines(), NullObserver(), None, "100%")
    for slot in driver.slots:
        driver._start(slot)
        slot.batch_size, slot.stream = 4, None
    return driver


def run_tasks(driver, dies):
    """Assign tasks to workers until none are left; the worker dies during its task if `dies(slot)`."""
    while driver.fresh or driver.returned:
        working = [slot for slot in driver.slots if slot.worker is not None]
        assert working
        for slot in working:
            driver._dispatch(slot, working)
            if slot.scenes and dies(slot):
                driver._restart(slot, "killed")
                slot.batch_size, slot.stream = 4, None
                continue
            for scene in slot.scenes:
                for state in driver._active(scene):
                    state.take(turn(0, Action(answer="A", answer_text="A", done=True)))
            slot.scenes, slot.stream, slot.deaths = [], None, 0


def test_scene_is_retried_once_after_a_worker_dies():
    driver = driver_of("abcdefgh", workers=2)
    run_tasks(driver, lambda slot: "c" in slot.scenes)
    assert driver.log.failed == ["c0", "c1", "c2"]
    assert sum(state.status == "answered" for state in driver.states.values()) == 21


def test_single_worker_death_loses_nothing():
    driver, died = driver_of("abcdefgh", workers=2), []

    def dies(slot):
        died.append(slot.scenes)
        return len(died) == 1

    run_tasks(driver, dies)
    assert not driver.log.failed


def test_slot_is_abandoned_after_repeated_deaths():
    driver = driver_of("abcdefgh", workers=1)
    with pytest.raises(AssertionError):
        run_tasks(driver, lambda slot: True)
    assert driver.slots[0].worker is None
    assert "all workers died" in str(driver.last_error)
