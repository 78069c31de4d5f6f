"""Where a run leaves its folder, and what it prints."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.config.option import setting


@dataclass(frozen=True)
class OutputSpec:
    """Places, and what is printed; nothing of it changes a dialogue."""

    port: int = setting(
        0, "place", "Port of the page of --engine human; 0 is any that is free.", minimum=0
    )
    output: str = setting("experiment_logs", "place", "Where run folders lie.", metavar="DIR")
    json: bool = setting(
        False, "display", "Print the results as JSON on standard output.", flag=True
    )
    quiet: bool = setting(False, "display", "Print errors and the folder only.", flag=True)
    verbose: bool = setting(False, "display", "Print every turn.", flag=True)
