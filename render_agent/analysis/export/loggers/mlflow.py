"""MLflow: a run each in the experiment `render_agent`, wherever MLFLOW_TRACKING_URI says."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from render_agent.analysis.export.loggers.base import COLUMNS, PROJECT, FinishedRun, LoggedRun

TAG = "render_agent.run"
"""The tag by which a run is found again."""

MAX_PARAMETERS, MAX_LETTERS = 100, 500
"""What a server takes of parameters at once, and of one's value."""


class MlflowLogger:
    """Figures as metrics, options as parameters; the table, its pictures and the report as artefacts."""

    seen_by = "see it by: mlflow ui"

    def __init__(self, run: LoggedRun) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self.client.get_experiment_by_name(name)
        number = (
            self.client.create_experiment(name) if experiment is None else experiment.experiment_id
        )
        known = self.client.search_runs([number], f"tags.`{TAG}` = '{run.id}'", max_results=1)
        self.step = 0
        if known:
            self.id = known[0].info.run_id
            history = self.client.get_metric_history(self.id, "questions/done")
            self.step = max((metric.step for metric in history), default=0)
        else:
            self.id = self.client.create_run(
                number, tags={TAG: run.id}, run_name=run.name
            ).info.run_id
            self._parameters(run.options)

        self._opened_at = self.step

    def figures(self, figures: Mapping[str, float], step: int) -> None:
        """Write the figures of a step."""
        from mlflow.entities import Metric

        if self.step == self._opened_at:
            self.client.update_run(self.id, "RUNNING")
        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in figures.items()]
        self.client.log_batch(self.id, metrics=metrics)
        self.step = step

    def finish(self, run: FinishedRun) -> None:
        """Write the summary and the artefacts, which take the place of those that are there."""
        for name, value in run.summary.items():
            self.client.log_metric(self.id, name, value, step=run.step)
        for name, folder in run.artefacts.items():
            self.client.log_artifacts(self.id, str(folder), name)
        with TemporaryDirectory() as scratch:
            file = Path(scratch, "questions.csv")
            with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as opened:
                writer = csv.writer(opened)
                writer.writerow([*COLUMNS, "picture"])
                writer.writerows([*row, _artefact(run, str(row[0]))] for row in run.rows)
            self.client.log_artifact(self.id, str(file))
        self.client.set_terminated(self.id)

    def close(self) -> None:
        """Nothing waits: every call has been answered."""

    def _parameters(self, options: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        parameters = [Param(name, str(value)[:MAX_LETTERS]) for name, value in options.items()]
        for first in range(0, len(parameters), MAX_PARAMETERS):
            self.client.log_batch(self.id, params=parameters[first : first + MAX_PARAMETERS])


def _artefact(run: FinishedRun, question: str) -> str | None:
    """Return the path of a question's picture among the artefacts."""
    file = run.pictures.get(question)
    if file is None or run.views is None:
        return None
    folder = "views" if run.report is None else "report/views"
    return f"{folder}/{file.relative_to(run.views).as_posix()}"
