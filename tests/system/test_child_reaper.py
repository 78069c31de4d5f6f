"""What a process started ends with it, and nothing else does."""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from render_agent.system.child_reaper import EndTogether, alive, end

SLEEP = "import time; time.sleep(600)"

STUBBORN = f"""
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", {SLEEP!r}]).pid, flush=True)
{SLEEP}
"""
"""A program that starts another and does not end on request."""

PARENT = f"""
import os, psutil, signal, subprocess, sys, time
from render_agent.system.child_reaper import EndTogether

def started(program, **options):
    return subprocess.Popen([sys.executable, "-c", program], **options)

def looked():
    "Wait until the watcher has looked again: it sleeps from look to look, and is seen to have slept."
    watcher = psutil.Process(together._watcher.pid)
    before = watcher.num_ctx_switches().voluntary
    while watcher.num_ctx_switches().voluntary < before + 4:
        time.sleep(0.02)

before = started({SLEEP!r})
time.sleep(0.1)  # what begins within hundredths of a second counts as begun later
together = EndTogether()
stubborn = started({STUBBORN!r}, stdout=subprocess.PIPE)
within = int(stubborn.stdout.readline())
forked = os.fork()
if not forked:
    time.sleep(600)
if sys.argv[1] != "settled later":
    together.settled()
looked()
after = started({SLEEP!r})
looked()
print(together._watcher.pid, before.pid, after.pid, stubborn.pid, within, forked, flush=True)
sys.stdin.readline()
if sys.argv[1] == "close":
    together.close()
"""
"""A program that starts others, before, while and after it has their end seen to."""


@dataclass
class Parent:
    """The running program and those that it started."""

    process: subprocess.Popen
    watcher: psutil.Process
    before: psutil.Process
    after: psutil.Process
    within: list[psutil.Process]

    def gone(self, seconds=60.0):
        """Whether all that are to end with it do within seconds."""
        until = time.monotonic() + seconds
        while any(map(alive, [self.watcher, *self.within])) and time.monotonic() < until:
            time.sleep(0.02)
        return not any(map(alive, [self.watcher, *self.within]))


CAUSES = {"killed": signal.SIGKILL, "asked to end": signal.SIGTERM, "settled later": signal.SIGKILL}


@pytest.fixture(scope="module")
def parents():
    """One program for every cause of its end, all ended at once, and none collected."""
    with ExitStack() as stack:
        begun = {
            cause: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", PARENT, cause],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for cause in [*CAUSES, "close"]
        }
        found = {}
        for cause, process in begun.items():
            stack.callback(process.kill)
            named = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
            for one in named:
                stack.enter_context(suppress(psutil.NoSuchProcess))
                stack.callback(one.kill)
            found[cause] = Parent(process, *named[:3], named[3:])
        for parent in found.values():
            assert all(map(alive, [parent.watcher, parent.before, parent.after, *parent.within]))
        for cause, number in CAUSES.items():
            begun[cause].send_signal(number)
        begun["close"].stdin.close()
        begun["close"].wait(60)
        yield found


@pytest.mark.parametrize("cause", ["killed", "asked to end"])
def test_what_a_killed_process_started_ends_with_it(parents, cause):
    parent = parents[cause]
    assert len(parent.within) == 3
    assert parent.gone()
    assert alive(parent.before)
    assert alive(parent.after)


def test_so_it_does_while_they_are_still_being_started(parents):
    parent = parents["settled later"]
    assert parent.gone()
    assert alive(parent.before)


def test_closed_it_leaves_them_alone(parents):
    assert parents["killed"].gone()  # as long as it takes where they are not left alone
    parent = parents["close"]
    assert parent.process.returncode == 0
    assert not alive(parent.watcher)
    assert all(map(alive, [parent.before, parent.after, *parent.within]))


def test_closing_leaves_no_process_and_nothing_open():
    before, files = psutil.Process().children(), list(Path("/proc/self/fd").iterdir())
    for settled in (False, True):
        together = EndTogether()
        assert len(psutil.Process().children()) == len(before) + 1
        if settled:
            together.settled()
        together.close()
        together.close()
        together.settled()
    assert psutil.Process().children() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == len(files)


def test_a_number_that_another_process_has_by_now_is_not_ended():
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as other:
        try:
            remembered = psutil.Process(other.pid)
            # What is remembered of a number: when the process that had it began.
            remembered._ident = (other.pid, psutil.Process().create_time() - 100)
            assert not alive(remembered)
            end([remembered])
            assert other.poll() is None
            end([psutil.Process(other.pid)])
            assert other.wait(60) == -signal.SIGTERM
        finally:
            other.kill()


REUSED = f"""
import subprocess, sys, time
import psutil
from render_agent.system.child_reaper import alive, end

def started():
    return subprocess.Popen([sys.executable, "-c", {SLEEP!r}])

first = started()
remembered = psutil.Process(first.pid)
first.kill()
first.wait()
time.sleep(0.05)  # numbers are told apart by when they began, in hundredths of a second
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first.pid - 1))
second = started()
assert second.pid == first.pid
end([remembered])
assert second.poll() is None
print("left alone")
"""

APART = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
"""A command in which process numbers are one's own to give."""


def test_a_number_really_used_again_is_not_ended():
    given = "echo 500 > /proc/sys/kernel/ns_last_pid"
    if (
        shutil.which("unshare") is None
        or subprocess.run([*APART, "sh", "-c", given], capture_output=True, check=False).returncode
    ):
        pytest.skip("process numbers cannot be chosen here")
    done = subprocess.run(
        [*APART, sys.executable, "-c", REUSED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "left alone\n", done.stderr
