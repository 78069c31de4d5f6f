"""Faults of processes: killed, stopped, two of them on one run, the clock set back, the folder deleted."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from ground import TO_GO_ON, Ground, NotHere, NotInjected, said, stopped

BEING_WRITTEN = r"error: .* is being written by process \d+ on "


def killed(ground: Ground, sort: str, *words: str) -> None:
    """Kill the program with -9 at a moment of the undisturbed run."""
    ended = ground.run(*words, fault={"deed": "kill", **ground.moment(sort)})
    assert ended.code == -signal.SIGKILL, ended


def kill_run(ground: Ground) -> None:
    """Kill -9 at any moment, half of the times at one of those at which something is written."""
    killed(ground, ground.chance.choice(("writes", "anything")))
    ground.comes_to_its_end()


def kill_continued(ground: Ground) -> None:
    """Kill -9, and again while it goes on, up to four times."""
    killed(ground, "writes")
    for _ in range(ground.chance.randint(1, 4)):
        before = ground.logged()
        if ground.path() is None:
            break
        # what is left is less than the whole run: a moment beyond its end is none
        at = ground.chance.randint(1, max(1, ground.reference.ticks["writes"] // 3))
        fault = {"deed": "kill", "sort": "writes", "at": at}
        ended = ground.go_on(fault=fault, due=False)
        assert ended.code in (0, -signal.SIGKILL), ended
        assert ground.logged()[: len(before)] == before
    ground.comes_to_its_end()


def kill_report(ground: Ground) -> None:
    """Kill -9 while the report is written; the next one is whole."""
    path = Path(shutil.copytree(ground.reference.path, ground.output / ground.reference.path.name))
    shutil.rmtree(path / "report", ignore_errors=True)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    words = ("report", "recent", "--processes", "1", "--output", str(ground.output))
    sort = ground.chance.choice(("writes", "anything"))
    fault = {"deed": "kill", **ground.moment(sort, report=True)}
    ended = ground.run(*words, fault=fault)
    assert ended.code == -signal.SIGKILL, ended
    said(ground.run(*words), 0)
    assert {file: file.read_bytes() for file in before} == before
    pages = files_of(path / "report")
    assert pages.keys() >= ground.reference.pages.keys(), "pages are missing"
    differing = [name for name, text in ground.reference.pages.items() if pages[name] != text]
    assert not differing, f"pages differ: {differing}"


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their names."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def ask_to_end(ground: Ground, number: int, code: int) -> None:
    """Send a signal at any moment: it ends in order, what was taken is kept, and it says how to go on."""
    moment = ground.moment(ground.chance.choice(("writes", "anything", "draws", "answers")))
    ended = ground.run(fault={"deed": "signal", "signal": int(number), **moment})
    if ended.code == 0:
        raise NotInjected("it was at its end already")
    said(ended, code)
    path = ground.path()
    if path is None or not (path / "results.json").exists():
        stopped(ended)
    ground.comes_to_its_end()


def terminate(ground: Ground) -> None:
    """SIGTERM, as the time limit of a cluster sends it."""
    ask_to_end(ground, signal.SIGTERM, 143)


def interrupt(ground: Ground) -> None:
    """SIGINT, as Ctrl-C sends it."""
    ask_to_end(ground, signal.SIGINT, 130)


def clock_back(ground: Ground) -> None:
    """The clock is set back by hours or years while a run goes on, and stays so for the next one."""
    seconds = ground.chance.choice((3600, 7200, 10**7, 10**9))
    fault = {"deed": "clock back", "seconds": seconds, **ground.moment("anything")}
    said(ground.run(fault=fault), 0)
    ground.equals_the_undisturbed([])
    path = ground.path()
    assert path is not None
    # an hour back, as at the end of summer time: the newest run is still the one begun last
    fault = {"deed": "clock back", "seconds": 3600, "sort": "anything", "at": 1}
    said(ground.run(fault=fault), 0)
    shown = ground.run("ls", "--output", str(ground.output))
    newest = shown.told.splitlines()[-1].split()[0]
    assert newest != path.name, "the run that began last is not the newest"


def held(ground: Ground, *words: str) -> tuple:
    """Start the program and have it stop at a moment; return it and what lets it go on."""
    go = ground.folder / "go"
    fault = {"deed": "hold", "until": str(go), **ground.moment("answers", last=2)}
    child = ground.start(*words, fault=fault)
    while not ground.note.exists() and not child.ended():
        time.sleep(0.01)
    return child, go


def two_processes(ground: Ground) -> None:
    """A second process goes on with a run that is being written: it is told so, and changes nothing."""
    child, go = held(ground)
    try:
        before = ground.logged()
        other = ground.go_on()
        said(other, 1, BEING_WRITTEN)
        assert ground.logged() == before
    finally:
        go.touch()
    said(child.wait(), 0)
    ground.equals_the_undisturbed(before)


def two_mounts(ground: Ground) -> None:
    """The second process sees the folder by another mount of it."""
    place = ground.folder / "mounted"
    place.mkdir()
    child, go = held(ground)
    try:
        with mounted("--bind", str(ground.output), str(place)):
            other = ground.run("--continue", "recent", "--output", str(place))
            said(other, 1, BEING_WRITTEN)
            before = ground.logged()
    finally:
        go.touch()
        ended = child.wait()
    said(ended, 0)
    ground.equals_the_undisturbed(before)


def two_at_once(ground: Ground) -> None:
    """Two processes go on with a killed run at the same time: one does, the other is told so."""
    killed(ground, "writes")
    before = ground.logged()
    if ground.path() is None:
        raise NotInjected("it was killed before there was a run")
    words = ("--continue", "recent", "--output", str(ground.output))
    children = [ground.start(*words) for _ in range(2)]
    ended = sorted((child.wait() for child in children), key=lambda one: one.code)
    said(ended[0], 0)
    if ended[1].code:
        # it may come between the lock and the name of its holder
        said(ended[1], 1, r"error: .* is being written by (process \d+ on |another process;)")
    else:  # it came when the other was done
        said(ended[1], 0, "is complete")
    ground.equals_the_undisturbed(before)


def folder_gone(ground: Ground) -> None:
    """Somebody deletes the run folder, or moves it away, under way: the run says so, and stops."""
    how = ground.chance.choice(("deleted", "moved"))
    fault = {"deed": "remove", "how": how, **ground.moment("answers", last=3)}
    ended = ground.run(fault=fault)
    # deleted file by file under the hands of who writes, it may still be there when it is looked for
    said(ended, 1, r"error: .*( is gone: |: No such file or directory; ).*")
    assert not ended.told.count("nothing is lost"), ended.told
    assert ground.path() is None, "it left something that looks like a run"
    if how == "moved":
        (ground.folder / "disk" / "elsewhere").rename(ground.output / "20260101T000000_batched")
    ground.comes_to_its_end()


class mounted:
    """A mount that is there while the block is; NotHere where this machine lets nobody mount."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __enter__(self) -> None:
        try:
            subprocess.run(["mount", *self.words], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotHere("mounting needs root, and a machine that allows it") from error

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", self.words[-1]], check=True, capture_output=True)


KINDS = {
    "kill -9 of a run": kill_run,
    "kill -9 of a run that is continued": kill_continued,
    "kill -9 of a report": kill_report,
    "SIGTERM": terminate,
    "SIGINT": interrupt,
    "clock set back": clock_back,
    "two processes on one run": two_processes,
    "two processes through two mounts": two_mounts,
    "two processes that continue at once": two_at_once,
    "run folder deleted or moved away": folder_gone,
}

__all__ = ["KINDS", "TO_GO_ON"]
