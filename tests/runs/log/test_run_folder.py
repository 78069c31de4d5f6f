"""Run folders that are damaged, edited, locked, moved or full."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from factories.runs import (
    comparable_results,
    finish_run,
    make_config,
    make_questions,
    play,
    resume,
    transcripts,
    truncate_log,
    walking_engine,
)
from msgspec import structs

from render_agent import __version__
from render_agent.cli.dry_run import dry_continue
from render_agent.dialogue.moves import describe_outcome
from render_agent.dialogue.wording import general
from render_agent.errors import RenderAgentError, RunLogError, SetupError, UsageError
from render_agent.runs import read
from render_agent.runs.log import writer
from render_agent.runs.log.lock import FolderLock
from render_agent.runs.log.schema import FORMAT
from render_agent.runs.log.writer import RunLog
from render_agent.runs.read import RunData, find_run, list_runs
from render_agent.runs.runner import resume_run, start_run
from render_agent.util.atomic_files import read_lines


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """A finished run of four questions."""
    folder = tmp_path_factory.mktemp("made")
    return play(folder, make_questions(folder), walking_engine(4), max_turns=5)[0]


@pytest.fixture
def run_folder(finished_run, tmp_path):
    """A copy of it that tests may damage."""
    return shutil.copytree(finished_run, tmp_path / "runs" / finished_run.name)


def test_logged_outcome_matches_feedback(run_folder):
    turns = [turn for state in RunData(run_folder).states for turn in state.turns]
    moves = [turn for turn in turns if turn.outcome is not None]
    assert {turn.action.done for turn in moves} == {False}
    assert len(moves) == sum(not turn.action.done for turn in turns) > 0
    for turn in moves:
        description = describe_outcome(
            turn.action, turn.camera_before, turn.camera, turn.outcome, general()
        )
        assert turn.feedback.lower().startswith(description.lower())


def test_lines_without_outcome_are_readable(run_folder):
    before = [turn for state in RunData(run_folder).states for turn in state.turns]
    file = run_folder / "turns.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line.pop("outcome", None)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    after = [turn for state in RunData(run_folder).states for turn in state.turns]
    assert after == [structs.replace(turn, outcome=None) for turn in before]


def resume_walking(path):
    resume(path, walking_engine(4))


def test_unknown_fields_are_ignored(run_folder):
    """A folder with additional fields has the same format and remains readable."""
    run = RunData(run_folder)
    for name in ("turns.jsonl", "questions.jsonl", "config.json", "results.json"):
        lines = (
            (run_folder / name).read_text().splitlines()
            if name.endswith("l")
            else [(run_folder / name).read_text()]
        )
        extended = [json.dumps(json.loads(line) | {"added": {"later": 1}}) for line in lines]
        (run_folder / name).write_text("\n".join(extended) + "\n")
    reread = RunData(run_folder)
    assert (reread.questions, reread.turns, reread.config) == (run.questions, run.turns, run.config)
    assert reread.results == run.results
    assert reread.saved_results.pop("added") == {"later": 1}
    resume_run(reread, {}).close()


def test_truncated_last_line_is_dropped_and_its_turn_repeated(run_folder, tmp_path):
    copy = shutil.copytree(run_folder, tmp_path / "copy")
    truncate_log(copy, 6)
    with (copy / "turns.jsonl").open("ab") as file:
        file.write(b'{"question_id": "1", "turn": 1, "pha')
    resume_walking(copy)
    assert transcripts(copy) == transcripts(run_folder)
    assert all(json.loads(line) for line in (copy / "turns.jsonl").read_text().splitlines())


def test_missing_images_are_restored_identically(run_folder, tmp_path):
    copy = shutil.copytree(run_folder, tmp_path / "copy")
    truncate_log(copy, 6)
    before = {path: path.read_bytes() for path in (copy / "views").rglob("*.png")}
    shutil.rmtree(copy / "views")
    resume_walking(copy)
    views = [
        view for turns in transcripts(copy).values() for turn in turns for view in turn["views"]
    ]
    assert views
    for view in views:
        assert (copy / view["file"]).read_bytes() == before[copy / view["file"]]


def damage(path):
    """Make one image empty, one truncated and one a different image; return the intact ones."""
    files = sorted((path / "views").rglob("*.png"))
    contents = {file: file.read_bytes() for file in files}
    empty, truncated, swapped, source = files[0], files[1], files[-1], files[-2]
    empty.write_bytes(b"")
    truncated.write_bytes(contents[truncated][: len(contents[truncated]) // 2])
    swapped.write_bytes(contents[source])
    return contents, {empty, truncated, swapped}


def test_damaged_images_are_restored(run_folder, tmp_path):
    copy = shutil.copytree(run_folder, tmp_path / "copy")
    truncate_log(copy, 6)
    logged = {file for line in RunData(copy).lines() for file in line["sha256"]}
    for file in sorted((copy / "views").rglob("*.png")):
        if str(file.relative_to(copy)) not in logged:
            file.unlink()
    contents, _ = damage(copy)
    resume_walking(copy)
    assert transcripts(copy) == transcripts(run_folder)
    assert all(file.read_bytes() == content for file, content in contents.items())
    for line in RunData(copy).lines():
        for file, digest in line["sha256"].items():
            assert hashlib.sha256((copy / file).read_bytes()).hexdigest() == digest


def test_edited_config_is_refused(run_folder):
    record = json.loads((run_folder / "config.json").read_text())
    record["config"]["max_turns"] = 3
    (run_folder / "config.json").write_text(json.dumps(record))
    with pytest.raises(RunLogError, match="was edited after the run started"):
        resume_run(RunData(run_folder), {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot read"),
        (b"{}", "not a run folder"),
        (b"[]", "not a run folder"),
        (b'{"format": true}', "not a run folder.*format True"),
        (b'{"format": 0}', "older format 0.*Use the version"),
        (b'{"format": 99}', "newer format 99.*Upgrade"),
    ],
)
def test_invalid_config_is_refused(run_folder, content, message):
    (run_folder / "config.json").write_bytes(content)
    with pytest.raises(RunLogError, match=message):
        RunData(run_folder)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[1]"])
def test_damaged_results_name_the_remedy(run_folder, content, type_in):
    (run_folder / "results.json").write_bytes(content)
    remedy = f"Delete it, then run render-agent --continue {run_folder}"
    for arguments in (("show", run_folder.name), ("ls",)):
        _, _, err = type_in(*arguments, "--runs", run_folder.parent, folder=run_folder.parent)
        assert remedy in err
    (run_folder / "results.json").unlink()
    assert resume(run_folder)["status"] == "complete"


def test_damaged_turn_is_named(run_folder):
    lines = (run_folder / "turns.jsonl").read_text().splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | {"turn": 7})
    (run_folder / "turns.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(RunLogError, match="line 3 does not fit"):
        resume_run(RunData(run_folder), {})


def test_parts_are_read_once_on_first_use(run_folder, monkeypatch):
    run = RunData(run_folder)
    files_read = []
    monkeypatch.setattr(
        read,
        "read_lines",
        lambda file, *options: files_read.append(file.name) or read_lines(file, *options),
    )
    assert files_read == []
    assert [state.id for state in run.states] == [question.id for question in run.questions]
    assert run.results["questions"] == run.saved_results["questions"]
    assert [line.number for line in run.turns] == [
        line["turn"] for line in RunData(run_folder).lines()
    ]
    assert sorted(files_read[:2]) == ["questions.jsonl", "turns.jsonl"]
    assert len(files_read) == 3  # the last is from `lines`, which is not cached


def test_run_data_is_cached_until_reload(run_folder):
    (run_folder / "results.json").unlink()
    truncate_log(run_folder, 3)
    run = RunData(run_folder)
    assert (len(run.turns), run.saved_results, run.finished) == (3, None, False)
    resume_walking(run_folder)
    assert (len(run.turns), run.saved_results, run.finished) == (3, None, False)
    run.reload()
    assert (len(run.turns), run.saved_results["status"], run.finished) == (11, "complete", True)
    assert (
        run.results["questions"]
        == [row.to_json() for row in run.rows.values()]
        == run.saved_results["questions"]
    )


def test_run_without_questions_says_how_to_resume(run_folder):
    (run_folder / "questions.jsonl").unlink()
    run = RunData(run_folder)
    assert not run.has_questions
    for part in ("questions", "states", "results"):
        with pytest.raises(RunLogError, match=f"--continue {run_folder}"):
            getattr(run, part)


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("config.json", "fingerprint"),
        ("config.json", "engine.model"),
        ("turns.jsonl", "action"),
        ("questions.jsonl", "question"),
        ("results.json", "counts.failed"),
    ],
)
@pytest.mark.parametrize("value", [None, [1]])
def test_damaged_field_is_named_with_its_file(run_folder, file, field, value):
    path, names = run_folder / file, field.split(".")
    records = (
        [json.loads(line) for line in path.read_text().splitlines()]
        if file.endswith("l")
        else [json.loads(path.read_text())]
    )
    record = records[0]
    for name in names[:-1]:
        record = record[name]
    if value is None:
        del record[names[-1]]
    else:
        record[names[-1]] = value
    path.write_text("".join(json.dumps(each) + "\n" for each in records))

    def open_all():
        run = RunData(run_folder)
        _ = run.states
        _ = run.saved_results

    with pytest.raises(RunLogError, match=rf"{file}.*{names[-1]}"):
        open_all()


def test_older_format_is_refused_with_advice(run_folder, type_in):
    record = json.loads((run_folder / "config.json").read_text())
    (run_folder / "config.json").write_text(json.dumps(record | {"program": "0.1.0"}))
    for command in (
        ["--continue", run_folder],
        ["show", run_folder],
        ["ls", "--output", run_folder.parent],
    ):
        code, _, err = type_in(*command, folder=run_folder)
        assert code == (0 if command[0] == "ls" else 1)
        assert all(
            word in err for word in (run_folder.name, "0.1.0", __version__, "Use the version")
        )


def test_ls_lists_unreadable_runs_with_the_reason(run_folder, tmp_path, type_in):
    runs = tmp_path / "others"
    record = json.loads((run_folder / "config.json").read_text())
    configs = {
        "newer": json.dumps(record | {"format": FORMAT + 1}),
        "older": json.dumps(record | {"program": "0.1.0"}),
        "foreign": json.dumps({"hidden_size": 64}),
        "torn": json.dumps(record)[:-9],
        "edited": json.dumps(record | {"engine": None}),
    }
    for name, config in configs.items():
        (runs / name).mkdir(parents=True)
        (runs / name / "config.json").write_text(config)
    shutil.copytree(run_folder, runs / "whole")
    code, out, _ = type_in("ls", "--json", "--output", runs, folder=tmp_path)
    assert code == 0
    assert {row["run"]: row["status"] for row in json.loads(out)} == {
        "newer": "newer format",
        "older": "older format",
        "foreign": "not a run",
        "torn": "damaged",
        "edited": "damaged",
        "whole": "complete",
    }
    code, out, err = type_in("ls", "--output", runs, folder=tmp_path)
    assert (code, err.count("\n")) == (0, 5)
    assert "newer format" in out


def test_missing_questions_file_is_rewritten(run_folder, tmp_path):
    copy = shutil.copytree(run_folder, tmp_path / "copy")
    for name in ("questions.jsonl", "turns.jsonl", "results.json", "results.csv"):
        (copy / name).unlink()
    resume_walking(copy)
    assert transcripts(copy) == transcripts(run_folder)
    assert (copy / "questions.jsonl").read_bytes() == (run_folder / "questions.jsonl").read_bytes()


def test_lock_error_names_the_owner(run_folder):
    run = resume_run(RunData(run_folder), {})
    with pytest.raises(RunLogError, match=f"is being written by process {os.getpid()}"):
        resume_run(RunData(run_folder), {})
    run.close()
    resume_run(RunData(run_folder), {}).close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is missing")
def test_full_disk_while_locking(tmp_path):
    (tmp_path / "run.lock").symlink_to("/dev/full")
    with pytest.raises(RunLogError, match=r"cannot write .*run\.lock"):
        FolderLock(tmp_path)
    (tmp_path / "run.lock").unlink()
    FolderLock(tmp_path).close()


def test_lock_of_killed_process_is_released(run_folder):
    script = (
        "import sys, time; from pathlib import Path; from render_agent.runs.log.lock import FolderLock;"
        " held = FolderLock(Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(run_folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(RunLogError, match=f"process {process.pid}"):
            resume_run(RunData(run_folder), {})
        process.send_signal(signal.SIGKILL)
    resume_run(RunData(run_folder), {}).close()


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_missing_lock_support_gives_a_warning(run_folder, monkeypatch, error):
    def refuse(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("fcntl.flock", refuse)
    log = RunLog(run_folder)
    assert str(run_folder) in log.warning
    log.close()


def test_deleted_folder_stops_the_run(run_folder, tmp_path):
    log = RunLog(run_folder)
    run_folder.rename(tmp_path / "elsewhere")
    log.append_line({"question_id": "0"})
    with pytest.raises(RunLogError, match=f"{run_folder} was deleted"):
        log.sync()
    log.close()


def test_changed_scan_is_refused(tmp_path):
    run = start_run(make_config(tmp_path, make_questions(tmp_path)))
    run.close()
    with (tmp_path / "room.ply").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(SetupError, match=r"room\.ply is not the scan"):
        resume_run(RunData(run.path), {})


def append(path, line):
    """Append a line to a file."""
    with path.open("a") as file:
        file.write(line)


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        (lambda folder, run: append(folder / "room.ply", "x"), {}),
        (lambda folder, run: (folder / "room.ply").unlink(), {}),
        (lambda folder, run: append(folder / "policy.py", "# changed"), {}),
        (lambda folder, run: (folder / "policy.py").unlink(), {}),
        (lambda folder, run: append(run / "questions.jsonl", (run / "questions.jsonl").read_text()), {}),
        (lambda folder, run: append(run / "turns.jsonl", '{"question_id": "none"}\n'), {}),
        (lambda folder, run: FolderLock(run), {}),
        (lambda folder, run: None, {"max_turns": 3}),
        (lambda folder, run: None, {"max_cost": 1.0}),
        (lambda folder, run: None, {"log_to": ("nowhere",)}),
    ],
)  # fmt: skip
def test_dry_run_of_resuming_is_refused_like_resuming(tmp_path, change, changes):
    policy = tmp_path / "policy.py"
    policy.write_text("def policy(questions, seed):\n    raise SystemExit\n")
    questions = make_questions(tmp_path, 2)
    started = start_run(make_config(tmp_path, questions, model=str(policy)))
    started.close()
    run = started.path
    dry_continue(run.parent, run.name, {})
    lock = change(tmp_path, run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    messages = []
    for attempt in (lambda: dry_continue(run.parent, run.name, changes), lambda: resume_run(RunData(run), changes, allow_code=True)):  # fmt: skip
        with pytest.raises(RenderAgentError) as error:
            attempt()
        messages.append(str(error.value))
        if len(messages) == 1:
            assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert messages[0] == messages[1]
    if lock is not None:
        lock.close()


def test_only_options_that_do_not_affect_results_may_change(run_folder):
    with pytest.raises(UsageError, match="--max-turns cannot change"):
        resume_run(RunData(run_folder), {"max_turns": 3})
    resume_run(RunData(run_folder), {"max_turns": 5, "batch_size": 1, "finish_together": 1}).close()


def test_images_are_synced_before_their_line(finished_run, tmp_path, monkeypatch):
    synced, write_all, image_names = set(), writer.write_all, []

    def check_and_write(file, content):
        for line in map(json.loads, content.splitlines()):
            image_names.extend(line["sha256"])
        assert {Path(name).name for name in image_names} <= synced
        write_all(file, content)

    def fsync(number):
        path = Path(f"/proc/self/fd/{number}").readlink()
        synced.add(path.name.removeprefix(".").removesuffix(".part"))

    monkeypatch.setattr(writer, "write_all", check_and_write)
    monkeypatch.setattr(os, "fsync", fsync)
    path, _ = play(
        tmp_path, finished_run.parents[1] / "questions.jsonl", walking_engine(4), max_turns=5
    )
    assert image_names
    assert {"turns.jsonl", "config.json", "questions.jsonl", "results.json", path.name} <= synced


def test_full_disk_stops_the_run_without_loss(finished_run, run_folder, tmp_path):
    copy = shutil.copytree(run_folder, tmp_path / "copy")
    truncate_log(copy, 4)
    saved_log = tmp_path / "kept.jsonl"
    (copy / "turns.jsonl").rename(saved_log)
    (copy / "turns.jsonl").symlink_to("/dev/full")
    run = start_run(make_config(tmp_path, finished_run.parents[1] / "questions.jsonl", max_turns=5))
    (run.path / "turns.jsonl").symlink_to("/dev/full")
    with pytest.raises(RunLogError, match="No space left on device"):
        finish_run(run, lambda config, questions: walking_engine(4))
    (run.path / "turns.jsonl").unlink()
    resume_walking(run.path)
    assert transcripts(run.path) == transcripts(run_folder)
    assert comparable_results(run.path) == comparable_results(run_folder)


def test_find_run(finished_run, run_folder, tmp_path):
    runs = run_folder.parent
    for name in ("recent", run_folder.name, str(run_folder)):
        assert find_run(runs, name).path == run_folder
    newer_run = start_run(make_config(tmp_path, finished_run.parents[1] / "questions.jsonl"))
    newer_run.close()
    (
        runs / "20990101T000000_batched"
    ).mkdir()  # as left by a process killed before it wrote config.json
    (runs / "notes").mkdir()
    assert newer_run.path.name > run_folder.name
    assert find_run(runs, "recent").path == newer_run.path
    assert list_runs(runs) == [run_folder, newer_run.path]
    with pytest.raises(RunLogError, match="'nothing'"):
        find_run(runs, "nothing")
    with pytest.raises(RunLogError, match=f"did you mean '{run_folder.name}'"):
        find_run(runs, run_folder.name[:-1])
    with pytest.raises(RunLogError, match=r"empty.*--output"):
        find_run(tmp_path / "empty", "recent")


def test_runs_started_in_the_same_second_have_separate_folders(tmp_path):
    logs = [RunLog.create(tmp_path, "batched", {"config": {}}) for _ in range(3)]
    names = [log.path.name for log in logs]
    assert len(set(names)) == 3
    assert names == sorted(names)
    assert all((log.path / "config.json").is_file() for log in logs)
    for log in logs:
        log.close()


def test_unwritable_folder_raises_run_log_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunLogError, match="cannot write"):
        RunLog.create(tmp_path / "file" / "runs", "batched", {})
