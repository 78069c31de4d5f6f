"""A chat template tried in a process of its own, as it is a program and may never end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any

from render_agent.errors import SetupError

TRIAL_SECONDS = 20
TRIAL_BYTES = 2 << 30
"""What a template may take of a processor and of memory for all dialogues that are tried; milliseconds, as a rule."""

OUT_OF_MEMORY = 3
"""Exit code of the trial where memory ran out."""

MAX_TURNS = 40
"""Turns of the longest dialogue that is tried: what loops only later would hang a run in its midst."""

SYSTEM_MESSAGE = {"role": "system", "content": [{"type": "text", "text": "You explore a room."}]}
USER_MESSAGE = {
    "role": "user",
    "content": [{"type": "image"}, {"type": "text", "text": "How many chairs?"}],
}
ASSISTANT_MESSAGE = {"role": "assistant", "content": [{"type": "text", "text": "{}"}]}


@lru_cache(maxsize=8)
def check_template(template: str, model: str) -> None:
    """SetupError where a model's chat template does not end, or takes all memory, over dialogues of 1 to MAX_TURNS turns.

    Whatever else is wrong with it is left to the library that uses it.
    """
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main;"
        f" sys.exit(main({TRIAL_SECONDS}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=template.encode("utf-8", "replace"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    faults = {
        OUT_OF_MEMORY: f"takes more than {TRIAL_BYTES >> 30} GB",
        -signal.SIGXCPU: f"does not end in {TRIAL_SECONDS} s",
    }
    if (fault := faults.get(done.returncode)) is not None:
        raise SetupError(
            f"the chat template of {model} (chat_template.jinja) {fault} over dialogues of up to"
            f" {MAX_TURNS} turns: fetch the model again, or name another"
        )


def try_template(template: str) -> None:
    """Write dialogues by a template, in the environment that transformers gives it."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):  # type: ignore[misc]
        """The block that marks what the model says; here it is written as it stands."""

        tags = {"generation"}  # noqa: RUF012 - as jinja2 has it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def refuse(message: str) -> None:
        raise ValueError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value)
    environment.globals |= {
        "raise_exception": refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
    }
    made = environment.from_string(template)
    for turns in range(1, MAX_TURNS + 1):
        messages = [SYSTEM_MESSAGE, *[USER_MESSAGE, ASSISTANT_MESSAGE] * (turns - 1), USER_MESSAGE]
        made.render(messages=messages, add_generation_prompt=True)


def main(seconds: int) -> int:
    """Try the template that comes in; exit code OUT_OF_MEMORY where memory runs out, else 0, and a signal after seconds."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (TRIAL_BYTES, TRIAL_BYTES))
    try:
        try_template(sys.stdin.read())
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception:  # noqa: BLE001 - transformers itself will say it
        return 0
    return 0
