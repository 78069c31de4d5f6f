"""What the program logs while a run goes on, written into its folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def program_log(path: Path, *, verbose: bool) -> Iterator[None]:
    """Write what the program logs to a file, such as `run.log`, and nowhere else."""
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    program = logging.getLogger("render_agent")
    before = program.level, program.propagate
    program.addHandler(handler)
    program.setLevel(logging.DEBUG if verbose else logging.INFO)
    program.propagate = False
    try:
        yield
    finally:
        program.removeHandler(handler)
        program.level, program.propagate = before
        handler.close()
