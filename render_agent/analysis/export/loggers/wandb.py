"""Weights & Biases: a run each, offline where no key is known (`wandb sync wandb/offline-run-…` sends it)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from render_agent.analysis.export.loggers.base import COLUMNS, PROJECT, FinishedRun, LoggedRun
from render_agent.system.whole_files import write_whole
from render_agent.text.safe_parse import parse_json

WAIT_SECONDS = 60
"""So long wandb tries to reach its server."""


class WandbLogger:
    """Figures by step, the table with its pictures, report and views as an artefact."""

    seen_by = "where it was offline, wandb sync wandb/latest-run sends it"

    def __init__(self, run: LoggedRun) -> None:
        import wandb

        self.name = run.name
        wandb.setup(settings=wandb.Settings(silent=True))
        known = "WANDB_MODE" in os.environ or wandb.login(prompt=False, verify=False)
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=run.id,
            name=run.name,
            config=run.options,
            resume="allow",
            mode=None if known else "offline",
            settings=wandb.Settings(
                console="off",
                silent=True,
                init_timeout=WAIT_SECONDS,
                x_disable_stats=True,
                disable_git=True,
                disable_code=True,
            ),
        )
        # Offline, wandb reads nothing of what it wrote: the last step of a run is kept beside its files.
        self._kept = Path(self.run.settings.wandb_dir, f"render_agent-{run.id}.json")
        kept = parse_json(self._kept.read_bytes()) if self._kept.is_file() else 0
        self.step = max(self.run.step, kept)

    def figures(self, figures: Mapping[str, float], step: int) -> None:
        """Write the figures of a step."""
        self.run.log(dict(figures), step=step)
        self.step = step

    def finish(self, run: FinishedRun) -> None:
        """Write the summary, the table and the artefact."""
        import wandb

        table = wandb.Table(columns=[*COLUMNS, "picture"])
        for row in run.rows:
            file = run.pictures.get(str(row[0]))
            table.add_data(*row, None if file is None else wandb.Image(str(file)))
        self.run.log({"questions": table}, step=run.step)
        self.run.summary.update(dict(run.summary))
        if run.artefacts:
            artefact = wandb.Artifact(f"report-{self.name}", type="report")
            for name, folder in run.artefacts.items():
                artefact.add_dir(str(folder), name)
            self.run.log_artifact(artefact)

    def close(self) -> None:
        """Send what is waiting."""
        write_whole(self._kept, json.dumps(self.step).encode())
        self.run.finish()
