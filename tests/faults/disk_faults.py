"""Faults of the disk: full, read-only, broken, slow."""

from __future__ import annotations

import subprocess

from ground import Ground, said, stopped
from process_faults import mounted

WORDS = {
    "ENOSPC": "No space left on device",
    "EIO": "Input/output error",
    "EROFS": "Read-only file system",
    "EDQUOT": "Disk quota exceeded",
    "EACCES": "Permission denied",
}


def broken(ground: Ground, error: str) -> None:
    """Every write fails from a moment on; a line may be there by half."""
    percent = ground.chance.choice((0, 30, 99))
    fault = {"deed": "fail", "error": error, "percent": percent, **ground.moment("writes")}
    ended = ground.run(fault=fault)
    if ended.code == 0:  # the last that is written is not needed: a folder that was there
        ground.equals_the_undisturbed([])
        return
    said(ended, 1, rf"error: cannot (write|make) .*{WORDS[error]}")
    stopped(ended)
    ground.comes_to_its_end()


def broken_once(ground: Ground) -> None:
    """One write fails, and the next would not: the run stops all the same, and goes on."""
    error = ground.chance.choice(sorted(WORDS))
    percent = ground.chance.choice((0, 30, 99))
    fault = {"deed": "fail once", "error": error, "percent": percent, **ground.moment("writes")}
    ended = ground.run(fault=fault)
    if ended.code == 0:  # what could not be written is not needed: a folder that was there
        ground.equals_the_undisturbed([])
        return
    said(ended, 1, rf"error: cannot (write|make) .*{WORDS[error]}")
    stopped(ended)
    ground.comes_to_its_end()


def broken_while_continued(ground: Ground) -> None:
    """The disk fails while a run goes on that was stopped before."""
    ground.run(fault={"deed": "kill", **ground.moment("writes", last=20)})
    if ground.path() is None:
        ground.comes_to_its_end()
        return
    before = ground.logged()
    error = ground.chance.choice(sorted(WORDS))
    at = ground.chance.randint(1, 15)
    ended = ground.go_on(fault={"deed": "fail", "error": error, "sort": "writes", "at": at})
    said(ended, 1, rf"error: cannot write .*{WORDS[error]}")
    ground.comes_to_its_end(before)


def slow(ground: Ground) -> None:
    """Every write takes long."""
    seconds = ground.chance.uniform(0.01, 0.05)
    said(ground.run(fault={"deed": "slow", "seconds": seconds, **ground.moment("writes")}), 0)
    ground.equals_the_undisturbed([])


def really_full(ground: Ground) -> None:
    """A real disk is full from a moment on, but for some bytes; then there is room again."""
    with mounted("-t", "tmpfs", "-o", "size=16m", "tmpfs", str(ground.folder / "disk")):
        ground.output.mkdir()
        fault = {"deed": "fill", "left": ground.chance.choice((0, 100, 5000, 20000))}
        ended = ground.run(fault={**fault, **ground.moment("writes", last=10)})
        if ended.code == 0:  # what was left was enough
            ground.equals_the_undisturbed([])
            return
        said(ended, 1, r"error: cannot write .*No space left on device")
        stopped(ended)
        before = ground.logged()
        again = ground.run() if ground.path() is None else ground.go_on()
        assert again.code == 1, again
        assert "Traceback" not in again.told, again.told
        (ground.folder / "disk" / "filler").unlink()
        ground.comes_to_its_end(before)


def too_small(ground: Ground) -> None:
    """A disk on which the run has no room is refused before there is a run."""
    with mounted("-t", "tmpfs", "-o", "size=40k", "tmpfs", str(ground.folder / "disk")):
        ground.output.mkdir()
        said(ground.run(), 1, r"error: the run may need .* free: name a larger disk")
        assert not [*ground.output.iterdir()]
    ground.comes_to_its_end()


def read_only(ground: Ground) -> None:
    """A real disk is read-only, at the start or when a run is continued."""
    place = str(ground.folder / "disk")
    with mounted("-t", "tmpfs", "-o", "size=16m", "tmpfs", place):
        ground.output.mkdir()
        if ground.chance.random() < 0.5:
            ground.run(fault={"deed": "kill", **ground.moment("writes", last=10)})
        before = ground.logged()
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        ended = ground.run() if ground.path() is None else ground.go_on()
        said(ended, 1, r"error: cannot write .*Read-only file system")
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)
        ground.comes_to_its_end(before)


KINDS = {
    "disk full (ENOSPC)": lambda ground: broken(ground, "ENOSPC"),
    "disk broken (EIO)": lambda ground: broken(ground, "EIO"),
    "disk read-only (EROFS)": lambda ground: broken(ground, "EROFS"),
    "quota used up (EDQUOT)": lambda ground: broken(ground, "EDQUOT"),
    "access taken away (EACCES)": lambda ground: broken(ground, "EACCES"),
    "one write fails": broken_once,
    "disk fails while a run is continued": broken_while_continued,
    "disk slow": slow,
    "a real disk full": really_full,
    "a real disk too small": too_small,
    "a real disk read-only": read_only,
}
