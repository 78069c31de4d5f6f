"""Trackio: a run each in the project `render_agent`, in its own local store (`trackio show`) unless it is told of another."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout

from render_agent.analysis.export.loggers.base import COLUMNS, PROJECT, FinishedRun, LoggedRun

logger = logging.getLogger(__name__)


class TrackioLogger:
    """Figures by step, the table with its pictures, report and views as artefacts."""

    seen_by = "see it by: trackio show"

    def __init__(self, run: LoggedRun) -> None:
        import trackio

        self.name = run.name
        with _chatter_logged():
            self.run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", PROJECT),
                name=run.id,
                config={name: str(value) for name, value in run.options.items()},
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        self.step = max(0, int(self.run._next_step) - 1)

    def figures(self, figures: Mapping[str, float], step: int) -> None:
        """Write the figures of a step."""
        self.run.log(dict(figures), step=step)
        self.step = step

    def finish(self, run: FinishedRun) -> None:
        """Write the summary, the table and the artefacts."""
        import trackio

        rows = []
        for row in run.rows:
            file = run.pictures.get(str(row[0]))
            picture = {} if file is None else {"picture": trackio.Image(str(file))}
            rows.append(dict(zip(COLUMNS, row, strict=True)) | picture)
        self.run.log({**run.summary, "questions": trackio.Table(data=rows)}, step=run.step)
        if run.artefacts:
            artefact = trackio.Artifact(f"report-{self.name}", type="report")
            for name, folder in run.artefacts.items():
                artefact.add_dir(str(folder), name)
            self.run.log_artifact(artefact)

    def close(self) -> None:
        """Write what is waiting."""
        with _chatter_logged():
            self.run.finish()


@contextmanager
def _chatter_logged() -> Iterator[None]:
    """Keep what trackio prints for the log of the run: standard output may be JSON, and --quiet be asked for."""
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            yield
    finally:
        for line in filter(None, map(str.strip, said.getvalue().splitlines())):
            logger.info("trackio says: %s", line)
