"""Where a run leaves its folder, and what it prints."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.config.option import declare


@dataclass(frozen=True)
class OutputSpec:
    """Places, and what is printed; nothing of it changes a dialogue."""

    port: int = declare(
        "place", 0, "Port of the page of --engine human; 0 is any that is free.", minimum=0
    )
    output: str = declare("place", "experiment_logs", "Where run folders lie.", metavar="DIR")
    json: bool = declare("display", False, "Print the results as JSON on standard output.")
    quiet: bool = declare("display", False, "Print errors and the folder only.")
    verbose: bool = declare("display", False, "Print every turn.")
