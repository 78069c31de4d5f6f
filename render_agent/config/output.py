"""Where a run leaves its folder, what it prints, and which tools it is logged to."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.config.option import declare


@dataclass(frozen=True)
class OutputSpec:
    """Places, what is printed, and where it is logged; nothing of it changes a dialogue."""

    port: int = declare(
        "place", 0, "Port of the page of --engine human; 0 is any that is free.", minimum=0
    )
    output: str = declare("place", "experiment_logs", "Where run folders lie.", metavar="DIR")
    log_to: tuple[str, ...] = declare(
        "display",
        (),
        "Also log the run to this tool, as it goes on and at its end; may be given more than once.",
        part="logger",
    )
    json: bool = declare("display", False, "Print the results as JSON on standard output.")
    quiet: bool = declare("display", False, "Print errors and the folder only.")
    verbose: bool = declare("display", False, "Print every turn.")
