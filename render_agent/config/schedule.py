"""Speed and output of a run: batching, processes, its folder, and what is printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from render_agent.config.option import AUTO, declare
from render_agent.errors import UsageError

setting = partial(declare, "speed")


@dataclass(frozen=True)
class ScheduleSpec:
    """How turns are batched, and who shares them; nothing of it changes a dialogue."""

    max_batched_turns: int = setting(
        4, "Turns that all active questions take together first.", minimum=0
    )
    finish_together: int | str = setting(
        AUTO,
        "How many questions finish side by side after the batched turns; 1 is one after the other.",
        metavar="N|auto",
    )
    batch_size: int | str = setting(
        AUTO,
        "Requests in one call of the model, or under way at once; auto is what memory holds.",
        metavar="N|auto",
    )
    devices: tuple[str, ...] = setting(
        (),
        "One replica of the model on each of these devices, such as cuda:0,cuda:1.",
        metavar="LIST",
        separator=",",
    )
    workers: int = setting(
        1, "Processes that share the questions, scene by scene.", minimum=1, metavar="N"
    )
    ray: str | None = setting(
        None, "The Ray cluster that the workers run on (default: this machine).", metavar="ADDRESS"
    )

    max_failures: str = setting(
        AUTO,
        "Failed questions after which the run stops, a number or a share of them; auto is five in a row.",
        metavar="N|X%",
    )

    @property
    def fixed_batch_size(self) -> int | None:
        """The requests in one call that were asked for, None for as many as memory holds."""
        return None if self.batch_size == AUTO else int(self.batch_size)

    @property
    def alone(self) -> bool:
        """Whether it all happens in one process."""
        return self.workers == 1 and not self.devices and not self.ray

    def check_schedule(self) -> None:
        """Raise UsageError where these options contradict each other."""
        if not re.fullmatch(r"auto|\d{1,9}|(\d{1,2}(\.\d+)?|100)%", self.max_failures):
            raise UsageError(
                f"--max-failures {self.max_failures} is neither a number nor a share such as 10%"
            )
        if self.devices and self.workers not in (1, len(self.devices)):
            raise UsageError(
                f"--devices names {len(self.devices)} devices, a worker each: leave --workers"
                f" {self.workers} out"
            )


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
