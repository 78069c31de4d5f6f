"""Atomic files and JSON lines that survive a crash."""

import os
from pathlib import Path

import pytest

from render_agent.errors import RunLogError
from render_agent.util.atomic_files import (
    atomic_write,
    json_lines,
    read_lines,
    replacing_folder,
    write_all,
)


def test_a_torn_last_line_is_omitted(tmp_path):
    path = tmp_path / "turns.jsonl"
    rows = [{"a": 1}, {"text": "zwölf\n"}, {"b": [1, 2, {"c": None}]}]
    content = json_lines(rows)
    ends = [len(json_lines(rows[:count])) for count in range(4)]
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        lines, num_bytes = read_lines(path)
        num_complete = max(count for count in range(4) if ends[count] <= cut)
        assert lines == rows[:num_complete]
        assert num_bytes == ends[num_complete]


def test_an_invalid_line_before_the_last_is_an_error(tmp_path):
    path = tmp_path / "turns.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n{"a": 3}\n')
    with pytest.raises(RunLogError, match="line 2 of"):
        read_lines(path)


def test_an_invalid_last_line_is_omitted(tmp_path):
    path = tmp_path / "turns.jsonl"
    path.write_bytes(b'{"a": 1}\n\0\0\0\0\n')
    assert read_lines(path) == ([{"a": 1}], 9)


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunLogError, match="No space left on device"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_of_killed_processes_are_removed(tmp_path):
    names = [
        f".report-{kind}-{pid}" for kind in ("new", "old") for pid in (999_999_999, os.getppid())
    ]
    names += [".report-backup-999999999", f".report-new-{10**20}", ".other-new-999999999"]
    for name in names:
        (tmp_path / name / "questions").mkdir(parents=True)
    with replacing_folder(tmp_path / "report"):
        pass
    kept = {"report", names[1], *names[3:]}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_a_pipe_is_not_replaced(tmp_path):
    path = tmp_path / "bundle.zip"
    os.mkfifo(path)
    with pytest.raises(RunLogError, match=r"bundle\.zip"):
        atomic_write(path, b"new")
    assert path.is_fifo()


def test_write_all_raises_if_the_disk_is_full():
    with (
        Path("/dev/full").open("ab", buffering=0) as file,
        pytest.raises(OSError, match="No space"),
    ):
        write_all(file, b"line\n")
