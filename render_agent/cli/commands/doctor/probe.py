"""What is found, and how this machine is asked: in a process of its own, which may crash or hang without harm.

`python -m render_agent.cli.commands.doctor.probe MODULE FUNCTION ARGUMENT…` is that process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from render_agent.errors import RenderAgentError
from render_agent.system.processes import end_with_parent
from render_agent.text.safe_parse import parse_json

RUNNING: set[subprocess.Popen[str]] = set()
"""The probes that are waited for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing.

    part: the heading it stands under. needed: whether a run over the bundled rooms with the
    scripted engine needs it. remedy: what to install or do where it does not work.
    """

    part: str
    name: str
    works: bool
    detail: str
    remedy: str = ""
    needed: bool = False

    @property
    def prevents(self) -> bool:
        """Whether no run at all is possible because of it."""
        return self.needed and not self.works

    def to_json(self) -> dict[str, Any]:
        """Return the finding as `doctor --json` prints it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a probe found, or the sentence that says why it found nothing.

    explained: whether that sentence is the program's own and says what to do about it.
    """

    found: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    explained: bool = False


def ask(
    module: str,
    function: str,
    *arguments: str,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """Return what `function(*arguments)` of `module` returns, called in a process of its own.

    The function returns a JSON object. seconds: after so many the process is ended. environment:
    variables to set beside those of this process.
    """
    command = [sys.executable, "-m", __name__, module, function, *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **(environment or {})},
        start_new_session=True,  # it is ended with all that it starts
    )
    RUNNING.add(process)
    with process:
        try:
            printed, complaint = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return Answer(error=f"gave no answer within {seconds:.0f} seconds")
        finally:
            end(process)
    if process.returncode < 0:
        return Answer(error=f"its libraries crashed (signal {-process.returncode})")
    if process.returncode:
        return Answer(error=_last_line(complaint) or f"ended with code {process.returncode}")
    reply = parse_json(_last_line(printed))
    if "error" in reply:
        return Answer(error=reply["error"], explained=True)
    return Answer(reply)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a probe, where it runs, with all that it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    RUNNING.discard(process)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def main(module: str, function: str, *arguments: str) -> None:
    """Call the function and write what it returns as the last line; libraries may write before."""
    try:
        reply = getattr(import_module(module), function)(*arguments)
    except RenderAgentError as error:
        reply = {"error": str(error)}
    sys.stdout.write("\n" + json.dumps(reply) + "\n")
    sys.stdout.flush()
    os._exit(0)  # graphics libraries may crash while the interpreter takes them down


if __name__ == "__main__":
    end_with_parent(os.getppid())
    main(*sys.argv[1:])
