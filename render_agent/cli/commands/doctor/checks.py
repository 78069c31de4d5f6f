"""A check, and probes that run in a process of their own, so that they may crash or hang.

`python -m render_agent.cli.commands.doctor.checks MODULE FUNCTION ARGUMENT…` is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from render_agent.errors import RenderAgentError
from render_agent.util.processes import end_with_parent
from render_agent.util.safe_parse import parse_json


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    part: str
    """The heading that it is listed under."""
    name: str
    works: bool
    detail: str
    remedy: str = ""
    """What to install or do if it does not work."""
    needed: bool = False
    """True if a run over the bundled rooms with the scripted engine needs it."""

    @property
    def prevents(self) -> bool:
        """True if no run at all is possible because of it."""
        return self.needed and not self.works


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe returned, or the sentence that says why it returned nothing."""

    found: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    explained: bool = False
    """True if that sentence is the program's own and says what to do."""


def run_probe(module: str, function: str, *arguments: str, seconds: float) -> ProbeResult:
    """Return what `function(*arguments)` of `module` returns, a JSON object, called in a process of its own."""
    command = [sys.executable, "-m", __name__, module, function, *arguments]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return ProbeResult(error=f"gave no answer within {seconds:.0f} seconds")
    if ended.returncode < 0:
        return ProbeResult(error=f"its libraries crashed (signal {-ended.returncode})")
    if ended.returncode:
        return ProbeResult(error=_last_line(ended.stderr) or f"ended with code {ended.returncode}")
    reply = parse_json(_last_line(ended.stdout))
    return (
        ProbeResult(error=reply["error"], explained=True)
        if "error" in reply
        else ProbeResult(reply)
    )


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def answer_probe(module: str, function: str, *arguments: str) -> None:
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
    answer_probe(*sys.argv[1:])
