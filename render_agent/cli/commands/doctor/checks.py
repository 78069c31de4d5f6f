"""Checks, and probes that run in a subprocess because they may crash or hang."""

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
from render_agent.util.processes import die_with_parent
from render_agent.util.safe_parse import parse_json


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    part: str
    """Heading of the group that lists the check."""
    name: str
    works: bool
    detail: str
    remedy: str = ""
    """Action to take if the check fails."""
    needed: bool = False
    """True if even runs over the bundled rooms with the scripted engine need it."""

    @property
    def prevents(self) -> bool:
        """True if no run is possible because this check failed."""
        return self.needed and not self.works


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The return value of a probe, or the reason for its absence."""

    result: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    explained: bool = False
    """True if `error` is one of our own messages, which suggest a remedy."""


def run_probe(module: str, function: str, *arguments: str, seconds: float) -> ProbeResult:
    """Call `function(*arguments)` of `module` in a subprocess and return its result, a JSON object."""
    # not -m, which imports from the working directory first
    program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
    command = [sys.executable, "-c", program, module, function, *arguments]
    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return ProbeResult(error=f"no answer within {seconds:.0f} seconds")
    if process.returncode < 0:
        return ProbeResult(error=f"a library crashed (signal {-process.returncode})")
    if process.returncode:
        return ProbeResult(
            error=_last_line(process.stderr) or f"exited with code {process.returncode}"
        )
    reply = parse_json(_last_line(process.stdout))
    return (
        ProbeResult(error=reply["error"], explained=True)
        if "error" in reply
        else ProbeResult(reply)
    )


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def answer_probe(module: str, function: str, *arguments: str) -> None:
    """Call a function and print its result as the last line, because libraries may print before it."""
    try:
        reply = getattr(import_module(module), function)(*arguments)
    except RenderAgentError as error:
        reply = {"error": str(error)}
    sys.stdout.write("\n" + json.dumps(reply) + "\n")
    sys.stdout.flush()
    os._exit(0)  # graphics libraries may crash while the interpreter shuts down


def main() -> None:
    """Answer the probe of the command line."""
    die_with_parent(os.getppid())
    answer_probe(*sys.argv[1:])
