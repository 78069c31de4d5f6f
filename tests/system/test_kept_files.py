"""What is kept for later processes: made once, made anew where it is damaged or foreign, bounded, never in the way."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from render_agent.system import kept_files
from render_agent.system.kept_files import FOLDER_VARIABLE, kept, kept_folder, remove_oldest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def made(text="made", of=b"a scan"):
    """Return what is given, and whether it was made for that."""
    calls = []
    content = kept(of, lambda: calls.append(1) or text.encode())
    return content.decode(), bool(calls)


def test_what_was_made_is_made_no_more(folder):
    assert made("once") == ("once", True)
    assert made("twice") == ("once", False)
    assert made("other", b"another scan") == ("other", True)
    assert len([*folder.iterdir()]) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: b"",
        lambda entry: entry[:20],
        lambda entry: entry[:-1],
        lambda entry: entry + b"x",
        lambda entry: entry[:-1] + bytes([entry[-1] ^ 1]),
        lambda entry: bytes([entry[0] ^ 1]) + entry[1:],
    ],
)
def test_a_damaged_entry_is_made_anew_and_repaired(folder, damage):
    made()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert made() == ("made", True)
    assert file.read_bytes() == whole
    assert made() == ("made", False)


def test_an_entry_under_the_name_of_another_is_made_anew(folder):
    made()
    (first,) = folder.iterdir()
    made("other", b"another scan")
    (second,) = set(folder.iterdir()) - {first}
    first.write_bytes(second.read_bytes())
    assert made() == ("made", True)
    assert made("", b"another scan") == ("other", False)


def test_another_version_of_the_program_makes_its_own(folder, monkeypatch):
    made("old")
    monkeypatch.setattr(kept_files, "_program", lambda: b"another version")
    assert made("new") == ("new", True)
    monkeypatch.undo()


def test_nothing_is_kept_where_it_is_turned_off_or_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    assert kept_folder() is None
    assert made() == made() == ("made", True)
    remove_oldest()
    (tmp_path / "file").write_text("in the way")
    for place in ("file", "file/below"):
        monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / place))
        assert made() == made() == ("made", True)
        remove_oldest()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_in_the_place_of_an_entry_is_left_and_nothing_half_beside_it(folder):
    made()
    (file,) = folder.iterdir()
    file.unlink()
    file.mkdir()
    assert made() == made() == ("made", True)
    assert [*folder.iterdir()] == [file]


def test_it_lies_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_folder() == tmp_path / "render_agent" / "scans"
    made()
    assert made("") == ("made", False)
    assert len([*(tmp_path / "render_agent" / "scans").iterdir()]) == 1


def test_an_error_is_kept_nowhere(folder):
    with pytest.raises(ZeroDivisionError):
        kept(b"a scan", lambda: bytes([1 // 0]))
    assert made() == ("made", True)


KILLED = """
import os, signal
from render_agent.system.kept_files import kept
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
kept(b"a scan", lambda: b"made")
"""


def test_what_a_killed_process_left_half_is_not_read(folder):
    done = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert done.returncode == -signal.SIGKILL
    (half,) = folder.iterdir()
    assert made("anew") == ("anew", True)
    assert made() == ("anew", False)
    remove_oldest(half.stat().st_size)
    assert not half.exists()


def test_many_may_write_one_entry_at_once(folder):
    content = "made" * 100_000
    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(made, content) for _ in range(32)]
    assert {each.result()[0] for each in found} == {content}
    assert len([*folder.iterdir()]) == 1
    assert made() == (content, False)


def test_those_used_least_recently_are_removed_first(folder):
    names = ["first", "second", "third"]
    for number, name in enumerate(names):
        before = set(folder.iterdir()) if folder.exists() else set()
        made(name, name.encode())
        (file,) = set(folder.iterdir()) - before
        os.utime(file, (number, number))
    assert made("", b"first") == ("first", False)  # used just now
    sizes = sum(file.stat().st_size for file in folder.iterdir())
    remove_oldest(sizes)
    assert len([*folder.iterdir()]) == 3
    remove_oldest(sizes - 1)
    assert [made("anew", name.encode())[1] for name in names] == [False, True, False]
