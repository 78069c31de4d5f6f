"""Faults of what a run depends on: servers that die, stall and answer garbage; folders of an older version.

Faults of disks and processes meet runs by other engines here, too: over a server, and by a small model in the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from child import TREE
from disk_faults import broken, broken_once, broken_while_continued
from factories.runs import outcome, pictures, transcripts
from factories.servers import StubServer, by_rule, chat_reply, free_port
from ground import TO_GO_ON, Ground, NotHere, NotInjected, said
from process_faults import kill_continued, kill_run, two_at_once

from render_agent.runs.log.folder import RunFolder, list_runs

BROKEN = ("refuse", "reset", "close", "cut", "stall", "garbage", "no choices")
REFUSED = tuple((status, {}, "made") for status in (429, 500, 502, 503))

FORMATS = TREE / "tests" / "upgrades" / "formats"
CUT = "20260101T000002_batched"

_asked: dict[Path, Path] = {}
"""The undisturbed run over a server, by that of the campaign: it is made once."""


class Server:
    """A server that answers as the replies of the questions have it, in a process of its own.

    faults: what happens to the first requests instead. `asked` is how many there were.
    """

    def __init__(self, folder: Path, replies: Path, port: int, faults: list) -> None:
        self.count = folder / f"asked-{port}"
        self.port = port
        ready = folder / f"ready-{port}"
        ready.unlink(missing_ok=True)
        self.process = os.fork()
        if not self.process:
            with contextlib.suppress(BaseException):
                self._serve(replies, faults, ready)
            os._exit(1)
        while not ready.exists():
            time.sleep(0.01)

    @property
    def asked(self) -> int:
        """How many replies were asked for, of all servers of this port."""
        return self.count.stat().st_size if self.count.exists() else 0

    def _serve(self, replies: Path, faults: list, ready: Path) -> None:
        rows = [json.loads(line) for line in replies.read_text().splitlines()]
        texts = {row["id"]: row["replies"] for row in rows}

        def reply(body: dict) -> bytes:
            with self.count.open("a") as file:
                file.write("x")
            messages = body["messages"]
            number = int(re.search(r"(?:Question |How many, )(\d+)[:?]", json.dumps(messages))[1])
            turn = sum(message["role"] == "assistant" for message in messages)
            return chat_reply(json.dumps(texts[number][min(turn, len(texts[number]) - 1)]))

        StubServer(by_rule(reply), faults, self.port)
        ready.touch()
        threading.Event().wait()

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def over_a_server(ground: Ground, port: int, retries: int = 8) -> Path:
    """Have the run ask a server; return the file of its replies. NotHere where the client is not installed."""
    if find_spec("openai") is None:
        raise NotHere("the extra openai is not installed")
    import openai  # noqa: F401 - so that processes that are forked off this one have it

    words = list(ground.reference.words)
    place = words.index("--engine")
    replies = Path(words[place + 3])
    asked = ["--engine", "openai", "--model", "made", "--base-url", f"http://127.0.0.1:{port}/v1"]
    for option in (f"retries={retries}", "first_wait=0.02", "timeout=5", "connect_timeout=5"):
        asked += ["--engine-option", option]
    ground.words = [*words[:place], *asked, *words[place + 4 :]]
    return replies


def undisturbed(ground: Ground) -> None:
    """Hold the run against one over a server that nothing disturbs."""
    whole = ground.reference.path
    if whole not in _asked:
        place = whole.parent.parent / "asked"
        port = free_port()
        replies = over_a_server(ground, port)
        server = Server(ground.folder, replies, port, [])
        try:
            said(ground.run(*ground.words, "--output", str(place)), 0)
        finally:
            server.kill()
        (_asked[whole],) = list_runs(place)
    ground.whole = _asked[whole]


def disturbed_server(ground: Ground) -> None:
    """The server refuses, breaks off, stalls and answers garbage, and then answers."""
    undisturbed(ground)
    port = free_port()
    replies = over_a_server(ground, port)
    faults = [ground.chance.choice((*BROKEN, *REFUSED, None)) for _ in range(6)]
    server = Server(ground.folder, replies, port, faults)
    try:
        ended = ground.run()
    finally:
        server.kill()
    if not any(faults):
        raise NotInjected("nothing was to happen")
    said(ended, 0)
    ground.equals_the_undisturbed([])
    path = ground.path()
    assert path is not None
    assert RunFolder(path).results()["totals"]["events"], "no event was counted"


def killed_server(ground: Ground, *, in_time: bool) -> None:
    """The server is killed under way, and comes back at the same address: in time, or when the run stopped."""
    undisturbed(ground)
    port = free_port()
    replies = over_a_server(ground, port, retries=12 if in_time else 2)
    server = Server(ground.folder, replies, port, [])
    child = ground.start()
    after = ground.chance.randint(1, 12)
    while server.asked < after and not child.ended():
        time.sleep(0.005)
    server.kill()
    if in_time:
        server = Server(ground.folder, replies, port, [])
        ended = child.wait()
        server.kill()
        said(ended, 0)
        ground.equals_the_undisturbed([])
        return
    ended = child.wait()
    if ended.code == 0:
        raise NotInjected("it was at its end already")
    said(ended, 1, r"error: .*127\.0\.0\.1:\d+.*", TO_GO_ON)
    server = Server(ground.folder, replies, port, [])
    try:
        ground.comes_to_its_end()
    finally:
        server.kill()


def older_folder(ground: Ground) -> None:
    """A run that an older version left cut off goes on, is killed on the way, and goes on again."""
    kept = ground.chance.choice(sorted(FORMATS.iterdir()))
    found = []
    for name in ("whole", "killed"):
        folder = Path(shutil.copytree(kept, ground.folder / name))
        for file in folder.rglob("*.json*"):
            file.write_text(file.read_text("utf-8").replace("{HERE}", str(folder)), "utf-8")
        words = ("--continue", CUT, "--output", str(folder / "runs"))
        log = folder / "runs" / CUT / "turns.jsonl"
        before = log.read_bytes().rpartition(b"\n")[0]
        if name == "killed":
            moment = {"sort": "writes", "at": ground.chance.randint(1, 12)}
            fault = {"deed": "kill", "below": str(folder / "runs"), **moment}
            ended = ground.run(*words, fault=fault)
            assert ended.code == -signal.SIGKILL, ended
        said(ground.run(*words), 0)
        assert log.read_bytes().startswith(before), "lines of the older version are gone"
        found.append(folder / "runs" / CUT)
    whole, killed = found
    assert transcripts(killed) == transcripts(whole)
    results = [outcome(path) for path in found]
    assert results[0] == results[1]
    assert pictures(killed) == pictures(whole)


def over_a_steady_server(ground: Ground, fault: Callable[[Ground], None]) -> None:
    """Let a fault of another table meet a run over a server that answers."""
    undisturbed(ground)
    port = free_port()
    server = Server(ground.folder, over_a_server(ground, port), port, [])
    try:
        fault(ground)
    finally:
        server.kill()


MADE_MODEL = "from factories.models import small_qwen3_vl; import pathlib, sys; small_qwen3_vl(pathlib.Path(sys.argv[1]))"
"""In a process of its own: what has run PyTorch has threads, which those that are forked off it would wait for."""


def by_a_model(ground: Ground, fault: Callable[[Ground], None]) -> None:
    """Let a fault of another table meet a run by a model of random weights in its process."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise NotHere("the extra transformers is not installed")
    whole = ground.reference.path.parent.parent / "by a model"
    model = whole.with_name("made model")  # beside it: what is in that folder are runs
    if not model.exists():
        path = f"{TREE}:{TREE / 'tests'}"
        line = [sys.executable, "-c", MADE_MODEL, str(model)]
        subprocess.run(line, env={**os.environ, "PYTHONPATH": path}, check=True)
    words = list(ground.reference.words)
    place = words.index("--engine")
    asked = ["--engine", "transformers", "--model", str(model), "--device", "cpu", "--no-guide"]
    ground.words = [*words[:place], *asked, "--max-new-tokens", "6", *words[place + 4 :]]
    if not list_runs(whole):
        from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision

        cure_torchvision()
        import transformers.models.qwen3_vl.modeling_qwen3_vl  # noqa: F401 - for those forked off

        said(ground.run(*ground.words, "--output", str(whole)), 0)
    (ground.whole,) = list_runs(whole)
    fault(ground)


FAULTS: dict[str, Callable[[Ground], None]] = {
    "kill -9": kill_run,
    "kill -9 of a run that is continued": kill_continued,
    "two processes that continue at once": two_at_once,
    "disk full (ENOSPC)": lambda ground: broken(ground, "ENOSPC"),
    "disk broken (EIO)": lambda ground: broken(ground, "EIO"),
    "one write fails": broken_once,
    "disk fails while a run is continued": broken_while_continued,
}
"""Those of the other tables that meet every engine."""

ENGINES = {"over a server": over_a_steady_server, "by a model": by_a_model}

KINDS = {
    "server refuses, stalls, breaks off, answers garbage": disturbed_server,
    "server dies and comes back": lambda ground: killed_server(ground, in_time=True),
    "server dies; comes back when the run stopped": lambda ground: killed_server(
        ground, in_time=False
    ),
    "run folder of an older version": older_folder,
    **{
        f"{name}, {engine}": lambda ground, met=met, fault=fault: met(ground, fault)
        for engine, met in ENGINES.items()
        for name, fault in FAULTS.items()
    },
}
