"""What the doctor finds, and that nothing on the machine can take it down."""

import json
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
from conftest import test_data
from factories.models import small_model

from render_agent import registry
from render_agent.cli.commands.doctor import data, engines, examine, machine, model_probe, renderers
from render_agent.cli.commands.doctor.probe import Finding, ask
from render_agent.engines.transformers.model.load import open_model
from render_agent.system import system_libraries
from render_agent.text.console import plain_console
from render_agent.text.display import shown_on


def named(name):
    return Finding("part", name, True, "")


def only(findings, name):
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def test_a_probe_that_crashes_is_a_sentence():
    assert "crashed (signal 6)" in ask("os", "abort", seconds=60).error


def test_a_probe_that_hangs_is_ended():
    assert "within 1 seconds" in ask("subprocess", "getoutput", "sleep 100", seconds=1).error


def test_a_probe_that_raises_says_what():
    answer = ask("os", "listdir", "/no/such/folder", seconds=60)
    assert "No such file or directory: '/no/such/folder'" in answer.error
    assert not answer.explained


def test_a_sentence_of_the_program_is_kept_as_it_is():
    answer = ask("render_agent.cli.commands.doctor.renderers", "draw_once", "crayon", seconds=60)
    assert "'crayon'" in answer.error
    assert answer.explained


def test_the_default_renderer_draws_in_the_colours_it_was_given():
    found = renderers.draw_once(renderers.DEFAULT)
    assert found["seconds"] > 0
    assert {"kernels", "compiled", "device"} <= found.keys()


def test_a_renderer_that_is_missing_keeps_no_run_from_starting(monkeypatch):
    monkeypatch.setattr(renderers, "ask", lambda *_, seconds: renderers.Answer(error="no EGL"))
    found = list(renderers.examine_renderers())
    assert [finding.name for finding in found] == list(registry.built_in("renderer"))
    assert [finding.name for finding in found if finding.prevents] == [renderers.DEFAULT]
    assert all(finding.remedy for finding in found)


class Hub(BaseHTTPRequestHandler):
    code = 200

    def do_HEAD(self):
        self.send_response(self.code)
        self.end_headers()

    def log_message(self, *_):
        pass


def reach(endpoint, offline="0"):
    environment = {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": offline, "no_proxy": "*"}
    return ask(
        "render_agent.cli.commands.doctor.engines",
        "reach_hub",
        seconds=300,
        environment=environment,
    )


@pytest.mark.parametrize(("code", "error"), [(200, None), (503, "answers with code 503")])
def test_the_hub_is_asked_whether_it_is_there(code, error):
    server = HTTPServer(("127.0.0.1", 0), type("Hub", (Hub,), {"code": code}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    answer = reach(endpoint)
    server.shutdown()
    server.server_close()
    if error is None:
        assert answer.found == {"endpoint": endpoint}
    else:
        assert error in answer.error


def test_a_hub_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = reach(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert "cannot be reached" in answer.error


def test_offline_asks_nobody():
    assert "HF_HUB_OFFLINE is set" in reach("http://127.0.0.1:1", offline="1").error


def test_a_model_that_is_not_here_is_a_sentence_with_a_way_out():
    found = engines.look_for_model("nobody/nothing")
    assert found["folder"] is None
    assert "--engine scripted" in found["why"]


def test_missing_libraries_are_named_with_their_packages(monkeypatch):
    library = system_libraries.SystemLibrary("libnone.so.7", "libnone7", "nothing")
    monkeypatch.setattr(system_libraries, "LIBRARIES", (library,))
    assert system_libraries.missing()[0] == library
    found = only(machine.examine_machine(Path()), "system libraries")
    assert not found.works
    assert not found.prevents
    assert "libnone.so.7 is missing" in found.detail
    assert found.remedy.startswith("sudo apt-get install libnone7")


def test_memory_is_what_the_machine_has():
    total, free = machine.memory()
    assert 0 < total < 1e5
    assert 0 <= free <= total


def test_runs_need_a_folder_that_can_be_written(tmp_path):
    found = only(machine.examine_machine(tmp_path / "not" / "there" / "yet"), "disk")
    assert found.works
    assert str(tmp_path) in found.detail


@pytest.mark.parametrize("extra", ["report", "view"])
def test_an_extra_that_is_missing_is_named_and_prevents_nothing(monkeypatch, tmp_path, extra):
    monkeypatch.setattr(machine, "_version", lambda package: None)
    found = only(machine.examine_machine(tmp_path), f"{extra} packages")
    assert not found.works
    assert not found.prevents
    assert found.remedy == f'pip install "render_agent[{extra}]"'


def test_packages_that_are_missing_are_named():
    found = machine._packages("packages", ("numpy", "no-such-package|neither"), "x", needed=True)
    assert found.prevents
    assert "not installed: no-such-package" in found.detail
    found = machine._packages("packages", ("no-such-package",), "x")
    assert found.detail == "not installed: no-such-package"


def test_the_bundled_rooms_are_all_here():
    found = only(data.examine_data({}), "bundled rooms")
    assert found.works, found.detail


def test_no_run_is_possible_without_the_bundled_rooms(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("render_agent.questions.rooms.BUNDLED", tmp_path)
    for part in ("examine_renderers", "examine_engines"):
        monkeypatch.setattr(examine, part, lambda *_, **__: iter(()))
    assert examine.examine({"output": str(tmp_path)}, as_json=False) == 1
    assert "No run is possible until this is fixed: bundled rooms" in capsys.readouterr().out


def test_it_tells_what_it_is_doing_and_finds_in_the_same_order(tmp_path, monkeypatch, capsys):
    parts = "machine renderers engines data packages".split()
    for pause, part in zip((0.2, 0.1, 0, 0, 0), parts, strict=True):
        findings = lambda *_, pause=pause, part=part, **__: (time.sleep(pause), named(part))[1:]  # noqa: E731
        monkeypatch.setattr(examine, f"examine_{part}", findings)
    with shown_on(plain_console(stderr=True)):
        assert examine.examine({}, as_json=True) == 0
    out, err = capsys.readouterr()
    assert [finding["name"] for finding in json.loads(out)["findings"]] == parts
    assert len(err.splitlines()) == len(parts)
    assert "letting every renderer draw a triangle" in err


def sleeping():
    listed = psutil.process_iter(["cmdline"])
    return [p for p in listed if "sleep 61.5" in " ".join(p.info["cmdline"] or [])]


def test_who_stops_it_waits_for_no_probe(monkeypatch):
    answers = []

    def stopped(output):
        while not sleeping():
            time.sleep(0.05)
        raise KeyboardInterrupt
        yield

    def asked():
        answers.append(ask("subprocess", "getoutput", "sleep 61.5", seconds=60))
        yield from ()

    monkeypatch.setattr(examine, "examine_machine", stopped)
    monkeypatch.setattr(examine, "examine_renderers", asked)
    for part in ("examine_engines", "examine_data", "examine_packages"):
        monkeypatch.setattr(examine, part, lambda *_, **__: iter(()))
    with pytest.raises(KeyboardInterrupt):
        examine.examine({}, as_json=True)
    assert [answer.error for answer in answers] == ["its libraries crashed (signal 9)"]
    # what was killed may still be listed for a moment; it would sleep for longer than is waited here
    assert not psutil.wait_procs(sleeping(), timeout=30)[1]


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
    found = list(data.examine_data(options))
    assert only(found, "VSI-Bench").detail == "3 questions"
    assert only(found, "scannet").detail.startswith("1 of 2 scans found")
    assert not only(found, "scannet").works
    assert "RENDER_AGENT_ARKITSCENES" in only(found, "arkitscenes").remedy


def test_only_what_is_needed_prevents_a_run():
    assert Finding("p", "n", False, "d", needed=True).prevents
    assert not Finding("p", "n", False, "d").prevents
    assert not Finding("p", "n", True, "d", needed=True).prevents


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
    assert {"hub", "model", "memory", "disk", "system libraries", "VSI-Bench"} <= works.keys()
    assert "Traceback" not in asked.stdout + asked.stderr


def test_annotations_are_counted_where_the_option_points(tmp_path):
    folder = test_data("vsibench", "scannet_meta_info_val.json").parent
    options = {"questions": str(folder / "test.jsonl"), "annotations": str(folder)}
    found = only(data.examine_data(options), "annotations")
    assert found.works
    assert found.detail.startswith("288 of 288 scenes are annotated in")
    none = only(data.examine_data(options | {"annotations": str(tmp_path)}), "annotations")
    assert not none.works


def test_a_model_that_answers_as_it_should_says_so():
    found = model_probe.probe_model(str(small_model()), "cpu", "float32")
    assert found["batch"] is None
    assert found["reuse"] is None
    told = engines._probed("small", found)
    assert told.works
    assert "batch = single, reuse = recompute" in told.detail


def test_a_model_whose_batches_say_something_else_is_found_out(monkeypatch):
    def disturb(module, inputs, scores):
        return scores.roll(1, -1) if scores.shape[0] > 1 else scores

    loaded = open_model(str(small_model()), device="cpu", dtype="float32")
    loaded.model.lm_head.register_forward_hook(disturb)
    found = model_probe._probed(loaded)
    assert "differs when others are answered with it" in found["batch"]
    assert not engines._probed("small", found).works


def test_what_is_not_installed_is_named_with_its_extra():
    found = engines._optional("workers", "no-such-package", "ray", "--workers")
    assert not found.works
    assert 'pip install "render_agent[ray]"' in found.remedy
    assert engines._optional("arrays", "numpy", "", "all").works
