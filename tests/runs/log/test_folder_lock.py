"""The lock of a run folder on disks that refuse locks, or say yes to everybody."""

import errno
import json
import os
import socket
import subprocess
import sys
import time

import pytest
from factories.runs import Silent, make_config, make_questions, walking

from render_agent.errors import RunLogError
from render_agent.runs.log import lock
from render_agent.runs.log.folder import RunFolder, RunLog
from render_agent.runs.log.lock import FolderLock
from render_agent.runs.runner import resume_run, start_run

HOLD = """
import fcntl, sys, time
from pathlib import Path
def flock(file, how):
    number = int(sys.argv[2])
    if number:
        raise OSError(number, "refused")
fcntl.flock = flock
from render_agent.runs.log.lock import FolderLock
held = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
held.close()
"""


@pytest.fixture(params=[0, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def poor(request, monkeypatch):
    """A disk whose locks are worth nothing: refused, or given to everybody (0)."""

    def flock(file, how):
        if request.param:
            raise OSError(request.param, "refused")

    monkeypatch.setattr("fcntl.flock", flock)
    return request.param


def holder(folder, number):
    """Start a process that holds a folder's lock until it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_who_holds_it_is_said_and_a_dead_holder_holds_nobody_up(poor, tmp_path):
    with holder(tmp_path, poor) as process:
        name = f"process {process.pid} on {socket.gethostname()}"
        with pytest.raises(RunLogError, match=f"is being written by {name}; wait for it or stop"):
            FolderLock(tmp_path)
        process.kill()
        process.wait()
        FolderLock(tmp_path).close()
    assert {path.name for path in tmp_path.iterdir()} == {"run.lock"}


def test_a_disk_without_links_has_the_lock_too(poor, tmp_path, monkeypatch):
    def link(source, target):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    held = FolderLock(tmp_path)
    with pytest.raises(RunLogError, match="is being written by process"):
        FolderLock(tmp_path)
    held.check()
    held.close()
    FolderLock(tmp_path).close()


def owner_elsewhere(folder, silent):
    """Write the owner file of a process on another machine, whose last sign is so many seconds ago."""
    owner = {"host": "node7", "place": "node7 boot 4026531836", "process": 12, "began": "345"}
    (folder / "run.owner").write_text(json.dumps(owner))
    then = time.time() - silent
    os.utime(folder / "run.owner", (then, then))


def test_on_another_machine_the_heartbeat_counts(poor, tmp_path):
    owner_elsewhere(tmp_path, 20)
    with pytest.raises(
        RunLogError, match=r"process 12 on node7, which gave a sign \d\d s ago;.* go on \d+ s"
    ):
        FolderLock(tmp_path)
    owner_elsewhere(tmp_path, lock.STALE_SECONDS + 1)
    FolderLock(tmp_path).close()


def test_a_disk_that_takes_nothing_more_while_the_lock_is_taken_is_one_sentence(
    tmp_path, monkeypatch
):
    owner_elsewhere(tmp_path, lock.STALE_SECONDS + 1)

    def refused(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as disk:
        disk.setattr(os, "rename", refused)
        disk.setattr(os, "unlink", refused)
        with pytest.raises(RunLogError, match=r"cannot write .*run\.owner: Read-only file system"):
            FolderLock(tmp_path)
    FolderLock(tmp_path).close()


def test_an_owner_gives_signs(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.02)
    held = FolderLock(tmp_path)
    os.utime(tmp_path / "run.owner", (1, 1))
    until = time.monotonic() + 60
    while (tmp_path / "run.owner").stat().st_mtime < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert (tmp_path / "run.owner").stat().st_mtime > 2
    held.close()


def test_whoever_was_taken_over_writes_nothing_more(poor, tmp_path):
    log = RunLog.create(tmp_path, "batched", {"config": {}})
    log.append_line({"question_id": "a"})
    log.sync()
    before = (log.path / "turns.jsonl").read_bytes()
    (log.path / "run.owner").unlink()  # as one does who finds it old
    owner_elsewhere(log.path, 0)
    log.append_line({"question_id": "b"})
    with pytest.raises(RunLogError, match="was taken over by process 12 on node7"):
        log.sync()
    assert (log.path / "turns.jsonl").read_bytes() == before
    log.close()
    assert (log.path / "run.owner").exists()


def test_an_owner_file_that_somebody_removed_is_made_again(tmp_path):
    held = FolderLock(tmp_path)
    (tmp_path / "run.owner").unlink()
    held.check()
    assert (tmp_path / "run.owner").exists()
    held.check()
    held.close()


def test_a_line_that_does_not_follow_is_refused_instead_of_written(tmp_path):
    """Two processes that both believe to have the lock: the log stays one that can be read."""
    questions = make_questions(tmp_path)
    run = start_run(make_config(tmp_path, questions, max_turns=5))
    other = (run.path / "turns.jsonl").open("ab", buffering=0)

    def engine(config, asked):
        made = walking(4)
        answer = made.answer

        def disturbed(requests):
            if requests[0].turn == 2:
                other.write((run.path / "turns.jsonl").read_bytes().splitlines(True)[0])
            return answer(requests)

        made.answer = disturbed
        return made

    with pytest.raises(RunLogError, match="another process writes this run"):
        run.go(Silent(), engine)
    run.close()
    lines = (run.path / "turns.jsonl").read_bytes().splitlines(True)
    assert lines[-1] == lines[0]
    (run.path / "turns.jsonl").write_bytes(b"".join(lines[:-1]))
    again = resume_run(RunFolder(run.path), {})
    again.go(Silent(), lambda config, asked: walking(4))
    again.close()
    other.close()
