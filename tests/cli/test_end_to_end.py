"""The program as users run it, in a subprocess if necessary."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import test_data
from factories.runs import make_questions, transcripts, truncate_log

from render_agent.engines.bundled_models import suggest_models
from render_agent.runs.read import list_runs
from render_agent.tasks.rooms import BUNDLED

QUICK = ("--engine", "scripted", "--image-size", "96x72")
ROOMS = ("--batch", "--benchmark", "rooms")


def command(*arguments):
    return [sys.executable, "-m", "render_agent", *map(str, arguments)]


def start_process(*arguments, folder):
    """Run the program in `folder`; return exit code, standard output and standard error."""
    done = subprocess.run(
        command(*arguments), cwd=folder, capture_output=True, text=True, check=False, timeout=3000
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def test_batch_over_the_bundled_rooms_is_run_shown_and_reported(type_in, tmp_path):
    code, out, err = type_in(
        "--batch", "--benchmark", "rooms", "--limit", 3, *QUICK, folder=tmp_path
    )
    assert code == 0
    assert out == ""
    assert "VSI-Bench score" in err
    assert "PARTIAL" in err
    (run,) = list_runs(tmp_path / "experiment_logs")
    assert re.fullmatch(r"\d{8}T\d{6}_batched", run.name)
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "questions.jsonl", "turns.jsonl", "views", "run.lock"} <= names
    assert {"results.json", "results.csv"} <= names
    results = json.loads((run / "results.json").read_text())
    assert results["status"] == "partial"
    assert len(results["questions"]) == 3
    assert len((run / "results.csv").read_text().splitlines()) == 4
    assert f"python -m render_agent report {run.name}" in err
    question = results["questions"][0]["question_id"]
    code, out, _ = type_in("show", run.name, question, folder=tmp_path)
    assert code == 0
    assert "truth:" in out
    assert re.search(r"^scan: mesh, [\d,]+ faces \(assumed z up and metres", out, re.M)
    code, out, _ = type_in("report", run.name, folder=tmp_path)
    assert code == 0
    assert (run / "report" / "index.html").is_file()
    assert len(list((run / "report" / "questions").glob("*.html"))) == 3
    os.utime(run / "config.json", (0, 0))  # as after copying
    code, out, _ = type_in("ls", "--json", folder=tmp_path)
    (row,) = json.loads(out)
    assert row["run"] == run.name
    assert re.sub(r"\D", "", row["date"]) == run.name[:8] + run.name[9:13]
    code, _, err = type_in("--continue", "recent", folder=tmp_path)
    assert code == 0
    assert "is complete" in err


@pytest.mark.parametrize("output", ["experiment_logs", "elsewhere", "sub/experiment_logs"])
def test_suggested_commands_work_from_the_folder_in_which_they_are_printed(type_in, tmp_path, output):  # fmt: skip
    """Regression test: `--continue FOLDER/RUN` suggested `report RUN`, which is not found from there."""
    questions = make_questions(tmp_path, 2)
    options = ("--batch", "--benchmark", questions, "--views", "none", *QUICK)
    code, _, err = type_in(*options, "--output", output, folder=tmp_path)
    assert code == 0
    (run,) = list_runs(tmp_path / output)
    truncate_log(run, 1)
    lines = [err, type_in("show", f"{output}/{run.name}", folder=tmp_path)[1]]
    code, _, err = type_in("--continue", f"{output}/{run.name}", folder=tmp_path)
    assert code == 0
    lines.append(err)
    suggested = re.findall(r"(?:next|Resume with): (.+)", "\n".join(lines))
    assert len(suggested) == 3
    for line in suggested:
        arguments = shlex.split(line.partition("render_agent ")[2])
        assert type_in(*arguments, folder=tmp_path)[0] == 0, line


@pytest.mark.slow
def test_json_is_the_only_standard_output(tmp_path):
    code, out, _ = start_process(
        *("--batch", "--benchmark", "rooms", "--limit", 2, "--json", *QUICK), folder=tmp_path
    )
    assert code == 0
    assert len(json.loads(out)["questions"]) == 2


@pytest.mark.parametrize(
    "scan",
    [
        pytest.param("aws_small_house.ply", marks=pytest.mark.slow),
        "icl_redwood_livingroom1.ply",
        pytest.param("pcl_room_scan_nocolour.ply", marks=pytest.mark.slow),
    ],
)
def test_one_question_of_a_real_scan(type_in, tmp_path, scan):
    ply = test_data("scenes", scan)
    question = ("--ply", ply, "--question", "How many chairs are in this house?")
    code, _, err = type_in(*question, *QUICK, folder=tmp_path)
    assert code == 0
    assert "answer: " in err
    (run,) = list_runs(tmp_path / "experiment_logs")
    assert run.name.endswith("_single")
    assert len(transcripts(run)["question"]) >= 3
    code, _, err = type_in("--continue", "recent", folder=tmp_path)
    assert code == 0
    assert "is complete" in err
    code, out, _ = type_in("show", folder=tmp_path)
    assert code == 0
    assert "answer: " in out
    assert "turn 1" in out


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_stopped_run_prints_the_command_that_resumes_it(type_in, tmp_path, number, code):
    questions = make_questions(tmp_path, 4)
    policy = tmp_path / "held.py"
    policy.write_text(
        "import os, time\nfrom pathlib import Path\n"
        "class Held:\n"
        "    replies = 0\n"
        "    def reply(self, request):\n"
        "        self.replies += 1  # the third reply waits, when there are turns already\n"
        "        while self.replies == 3 and not Path(os.environ.get('HELD_UNTIL', '.')).exists():\n"
        "            time.sleep(0.05)\n"
        '        return \'{"answer": "A", "done": true}\' if request.turn else \'{"view": "top"}\'\n'
        "def policy(questions, seed):\n"
        "    return Held()\n"
    )
    options = ("--batch", "--benchmark", questions, "--batch-size", 1, *QUICK, "--model", policy)
    held = {**os.environ, "HELD_UNTIL": str(tmp_path / "stopped")}
    with subprocess.Popen(
        command(*options), cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=held
    ) as process:
        while not (runs := list_runs(tmp_path / "experiment_logs")) or not (
            (runs[0] / "turns.jsonl").exists()
        ):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        code_second, _, err = type_in("--continue", "recent", "--allow-code", folder=tmp_path)
        assert code_second == 1
        assert f"is being written by process {process.pid}" in err
        process.send_signal(number)
        (tmp_path / "stopped").touch()
        _, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert f"python -m render_agent --continue {runs[0].name} --allow-code" in err
    assert "Traceback" not in err
    code, _, err = type_in("--batch", "--continue", runs[0].name, "--allow-code", folder=tmp_path)
    assert code == 0
    whole, _, _ = type_in(*options, "--output", "whole", folder=tmp_path)
    assert whole == 0
    assert transcripts(runs[0]) == transcripts(list_runs(tmp_path / "whole")[0])


DELETES = """
import shutil
from pathlib import Path

class Deletes:
    def reply(self, request):
        shutil.rmtree(next(Path("experiment_logs").iterdir()))
        return '{"answer": "A", "done": true}'

def policy(questions, seed):
    return Deletes()
"""


def test_run_whose_folder_was_deleted_cannot_be_resumed(type_in, tmp_path):
    questions = make_questions(tmp_path, 1)
    policy = tmp_path / "deletes.py"
    policy.write_text(DELETES)
    options = ("--batch", "--benchmark", questions, "--views", "none", *QUICK, "--model", policy)
    code, _, err = type_in(*options, folder=tmp_path)
    assert code == 1
    assert "run folder experiment_logs" in err
    assert "--continue" not in err, "nothing is left to resume"


def test_failed_question_gives_exit_code_1_and_no_score(type_in, tmp_path):
    questions = make_questions(tmp_path, 2)
    (tmp_path / "room.ply").write_bytes(b"no scan at all")
    code, _, err = type_in("--batch", "--benchmark", questions, *QUICK, folder=tmp_path)
    assert code == 1
    assert "room.ply" in err
    assert "2 failed" in err
    (run,) = list_runs(tmp_path / "experiment_logs")
    results = json.loads((run / "results.json").read_text())
    assert results["official"] is None
    assert results["counts"]["failed"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ((*ROOMS, "--model", "no/such"), 1, suggest_models()),
        ((*ROOMS, "--model", "."), 1, "--engine scripted"),
        ((*ROOMS, *QUICK, "--model", "no"), 1, "explorer, random"),
        ((*ROOMS, *QUICK, "--model", "explorr"), 1, "'explorer'"),
        ((*ROOMS, "--model", 300 * "a"), 1, "too long"),
        ((*ROOMS, "--model", "~no-user/x"), 1, "no-user"),
        ((*ROOMS, "--base-url", "http://h:1/v1"), 2, "--engine openai"),
        ((*ROOMS, "--engine", "scripted", "--device", "cpu"), 2, "--device"),
        ((*ROOMS, *QUICK, "--start", "1,2"), 2, "x,y,z,yaw"),
        (("--batch", "--benchmark", ".", *QUICK), 1, "folder"),
        (("--ply", 300 * "a" + ".ply", "--question", "?", *QUICK), 1, "too long"),
    ],
)
def test_invalid_run_is_refused_without_a_run_folder(type_in, tmp_path, arguments, code, named):
    exit_code, out, err = type_in(*arguments, folder=tmp_path)
    assert (exit_code, out) == (code, "")
    assert named in err
    assert not list(tmp_path.glob("experiment_logs/*/config.json"))


@pytest.mark.parametrize("flag", ["limit", "type", "scene", "id", "exclude", "shard", "scannet"])
def test_selection_options_are_refused_with_ply(type_in, tmp_path, flag):
    question = ("--ply", "room.ply", "--question", "?", *QUICK, f"--{flag}", "1")
    code, _, err = type_in(*question, folder=tmp_path)
    assert code == 2
    assert f"--{flag}" in err
    assert "--ply" in err


@pytest.mark.parametrize("words", [("--limit", "1"), ("--benchmark", "rooms"), ("--shuffle",)])
def test_ask_refuses_and_hides_benchmark_options(type_in, tmp_path, words):
    code, _, err = type_in("ask", "room.ply", "?", *words, folder=tmp_path)
    assert (code, words[0] in err) == (2, True)
    _, out, _ = type_in("ask", "--help", folder=tmp_path)
    assert words[0] not in out
    assert {"--unit", "--boxes", "--annotations"} <= {*out.split()}


def test_environment_options_that_do_not_apply_are_ignored(type_in, tmp_path, monkeypatch):
    make_questions(tmp_path)
    monkeypatch.setenv("RENDER_AGENT_LIMIT", "2")
    question = ("--ply", "room.ply", "--question", "?", *QUICK, "--dry-run")
    assert type_in(*question, folder=tmp_path)[0] == 0


def test_environment_applies_to_commands_and_resuming(type_in, tmp_path, monkeypatch):
    monkeypatch.setenv("RENDER_AGENT_JSON", "1")
    assert type_in("ls", folder=tmp_path)[:2] == (0, "[]\n")
    monkeypatch.setenv("RENDER_AGENT_CONTINUE", "nothere")
    code, _, err = type_in(folder=tmp_path)
    assert (code, "'nothere'" in err) == (1, True)


def test_environment_sets_no_command_flag_of_the_same_name(type_in, tmp_path, monkeypatch):
    monkeypatch.setenv("RENDER_AGENT_PROBE", "map")
    assert type_in("doctor", "--help", folder=tmp_path)[0] == 0


def test_dry_run_shows_the_first_prompt_and_writes_nothing(type_in, tmp_path):
    code, out, _ = type_in(
        *("--batch", "--benchmark", "rooms", "--dry-run", "--json", *QUICK), folder=tmp_path
    )
    assert code == 0
    plan = json.loads(out)
    assert plan["questions"] == sum(plan["types"].values()) >= 100
    system, user = plan["messages"]
    assert system["role"] == "system"
    files = [piece["image"] for piece in user["content"] if piece["type"] == "image"]
    assert len(files) == 2
    assert all((Path(plan["pictures"]) / file).is_file() for file in files)
    assert not (tmp_path / "experiment_logs").exists()


def test_options_that_affect_results_are_refused_when_resuming(type_in, tmp_path):
    questions = make_questions(tmp_path, 2)
    type_in("--batch", "--benchmark", questions, *QUICK, folder=tmp_path)
    code, _, err = type_in("--continue", "recent", "--max-turns", 3, folder=tmp_path)
    assert code == 2
    assert "--max-turns" in err
    code, _, _ = type_in("--continue", "recent", "--batch-size", 3, folder=tmp_path)
    assert code == 0


def test_start_outside_the_scan_is_moved_and_noted(type_in, tmp_path):
    scan = BUNDLED / "room00.ply"
    batch = ("--batch", "--benchmark", "rooms", "--scene", "room00", "--limit", 2)
    for run in (batch, ("--ply", scan, "--question", "How many chairs?")):
        code, _, err = type_in(*run, *QUICK, "--start", "40,0,1.6,30", folder=tmp_path)
        assert code == 0
        notes = [line for line in err.splitlines() if line.startswith("scan room00: ")]
        assert len(notes) == 1
        assert "[40.00, 0.00, 1.60]" in notes[0]
