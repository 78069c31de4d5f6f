"""Faults of a renderer: it crashes its process or hangs; a run outlives it."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

from crashing_renderer import installed
from ground import TO_TRY_AGAIN, Ground, NotInjected, said, stopped
from memory_faults import FAILED

CRASHES = {
    "crash": r"crashed its process \(SIGSEGV\)",
    "abort": r"crashed its process \(SIGABRT\)",
    "exit": r"ended its process with exit code 3",
    "killed": r"crashed its process \(SIGKILL, as where memory runs out\)",
}
HANGS = dict.fromkeys(("hang", "hang in native code"), r"gave nothing in \d+ s")
RAISES = {"no memory": "memory", "raise": r"ZeroDivisionError\('by a made fault'\)"}

FOR_EVER = 10**6

SECONDS = "render_agent.render.subprocess_renderer.MAX_SECONDS"


def crashing(
    ground: Ground, how: str, times: int, settings: dict | None = None, last: int = 1
) -> dict:
    """Have the run draw with the crashing renderer; return what makes it go wrong."""
    site = installed(ground.folder / "site")
    ground.words = [*ground.reference.words, "--renderer", "crashing"]
    at = ground.moment("draws", last=last)["at"]
    told = {"how": how, "at": at, "times": times, "folder": str(ground.folder)}
    ground.always = {
        "site": str(site),
        "environment": {"CRASHING_RENDERER": json.dumps(told | {"times": 0})},
    }
    environment = {"CRASHING_RENDERER": json.dumps(told)}
    return {"site": str(site), "environment": environment, "settings": settings or {}}


def log_of(ground: Ground) -> str:
    """Return what the run logged."""
    path = ground.path()
    assert path is not None
    return (path / "run.log").read_text("utf-8")


def processes(ground: Ground) -> list[int]:
    """Return the processes that drew."""
    return [int(line) for line in (ground.folder / "processes").read_text().split()]


def all_gone(ground: Ground, seconds: float = 120) -> None:
    """No process that drew is left over."""
    end = time.monotonic() + seconds
    while left := [number for number in processes(ground) if alive(number)]:
        assert time.monotonic() < end, f"processes are left: {left}"
        time.sleep(0.1)


def alive(process: int) -> bool:
    """Whether a process is there and no mere record of one."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def crashes_once(ground: Ground) -> None:
    """One view ends its process: it is drawn again by another, and nobody notices but the log."""
    how = ground.chance.choice(sorted(CRASHES))
    said(ground.run(fault=crashing(ground, how, 1)), 0)
    all_gone(ground)
    assert len(processes(ground)) == 2
    told = log_of(ground)
    assert "warning: " not in told
    assert_in(CRASHES[how], told)
    ground.equals_the_undisturbed([])


def crashes_always(ground: Ground) -> None:
    """Every view ends its process from a moment on: its questions fail with a sentence, and are tried again."""
    how = ground.chance.choice(sorted(CRASHES))
    ended = ground.run(fault=crashing(ground, how, FOR_EVER))
    sentence = (
        rf"The renderer crashing {CRASHES[how]} when it drew room\d+; use the renderer rasteriser"
    )
    said(ended, 1, FAILED, TO_TRY_AGAIN, sentence)
    all_gone(ground)
    ground.comes_to_its_end()


def hangs_once(ground: Ground) -> None:
    """One view never comes: its process is ended, and the view drawn by another."""
    how = ground.chance.choice(sorted(HANGS))
    impatient = {"impatient": str(ground.folder / "hangs")}
    said(ground.run(fault=crashing(ground, how, 1) | impatient), 0)
    all_gone(ground)
    assert_in(HANGS[how], log_of(ground))
    ground.equals_the_undisturbed([])


def hangs_always(ground: Ground) -> None:
    """No view comes any more: questions fail with a sentence, and are tried again."""
    how = ground.chance.choice(sorted(HANGS))
    impatient = {"impatient": str(ground.folder / "hangs")}
    ended = ground.run(fault=crashing(ground, how, FOR_EVER) | impatient)
    said(ended, 1, FAILED, TO_TRY_AGAIN, rf"The renderer crashing {HANGS[how]}")
    all_gone(ground)
    ground.comes_to_its_end()


def stopped_while_it_hangs(ground: Ground) -> None:
    """SIGTERM while a view never comes: the run ends at once all the same, and leaves nothing behind."""
    fault = crashing(ground, ground.chance.choice(sorted(HANGS)), FOR_EVER, last=3)
    child = ground.start(fault=fault)
    at = json.loads(fault["environment"]["CRASHING_RENDERER"])["at"]
    views = ground.folder / "views"
    while not child.ended() and not (views.exists() and views.stat().st_size >= at):
        time.sleep(0.02)
    time.sleep(0.2)
    os.kill(child.process, signal.SIGTERM)
    ended = child.wait(120)  # of 300 s that a view may take
    assert not ended.hung, "it waits for a view that never comes"
    said(ended, 143)
    stopped(ended)
    all_gone(ground)
    ground.comes_to_its_end()


def killed_while_it_hangs(ground: Ground) -> None:
    """Kill -9 of the run while a view never comes: its drawing process ends by itself."""
    how = ground.chance.choice(sorted(HANGS))
    fault = crashing(ground, how, FOR_EVER, {SECONDS: 10.0}, last=3)
    child = ground.start(fault=fault)
    at = json.loads(fault["environment"]["CRASHING_RENDERER"])["at"]
    views = ground.folder / "views"
    while not child.ended() and not (views.exists() and views.stat().st_size >= at):
        time.sleep(0.02)
    if child.ended():
        raise NotInjected("it was at its end already")
    os.kill(child.process, signal.SIGKILL)
    child.wait()
    all_gone(ground)
    ground.comes_to_its_end()


def raises(ground: Ground) -> None:
    """One view raises what no renderer should: its question alone fails, and is tried again."""
    how = ground.chance.choice(sorted(RAISES))
    ended = ground.run(fault=crashing(ground, how, 1))
    said(ended, 1, FAILED, TO_TRY_AGAIN, RAISES[how])
    assert "Traceback" in log_of(ground)
    all_gone(ground)
    ground.comes_to_its_end()


def assert_in(pattern: str, text: str) -> None:
    """The pattern is in the text."""
    assert re.search(pattern, text), f"{pattern!r} is not in: {text[-1500:]}"


KINDS = {
    "renderer crashes its process once": crashes_once,
    "renderer crashes its process always": crashes_always,
    "renderer hangs once": hangs_once,
    "renderer hangs always": hangs_always,
    "renderer raises anything": raises,
    "SIGTERM while the renderer hangs": stopped_while_it_hangs,
    "kill -9 while the renderer hangs": killed_while_it_hangs,
}
