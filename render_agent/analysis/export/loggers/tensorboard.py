"""TensorBoard: event files in the `tensorboard` folder beside the runs, a folder each."""

from __future__ import annotations

from collections.abc import Mapping

from render_agent.analysis.export.loggers.base import COLUMNS, FinishedRun, LoggedRun

FOLDER = "tensorboard"
"""Beside the run folders: `tensorboard --logdir experiment_logs/tensorboard` shows them all."""


class TensorBoardLogger:
    """Figures as scalars, the table as Markdown, its pictures as images; the report by its path."""

    seen_by = "see it by: tensorboard --logdir {runs}/tensorboard"

    def __init__(self, run: LoggedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = run.folder.path.parent / FOLDER / run.name
        files = sorted(self.folder.glob("events.out.tfevents.*"))
        if run.anew:  # what is told at once takes the place of what was told before
            for file in files:
                file.unlink()
        self.step = 0 if run.anew or not files else _last_step(str(self.folder))
        self.writer = SummaryWriter(str(self.folder))
        if not self.step:
            options = [f"| {name} | {_cell(value)} |" for name, value in run.options.items()]
            self.writer.add_text(
                "options", "\n".join(["| option | value |", "|---|---|", *options])
            )

    def figures(self, figures: Mapping[str, float], step: int) -> None:
        """Write the figures of a step."""
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()
        self.step = step

    def finish(self, run: FinishedRun) -> None:
        """Write the summary, the table and its pictures."""
        import numpy as np
        from PIL import Image

        for name, value in run.summary.items():
            self.writer.add_scalar(name, value, run.step)
        rows = ["| " + " | ".join(map(_cell, row)) + " |" for row in run.rows]
        table = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|", *rows]
        self.writer.add_text("questions", "\n".join(table), run.step)
        if run.report is not None:
            self.writer.add_text("report", str(run.report / "index.html"), run.step)
        for name, file in run.pictures.items():
            with Image.open(file) as picture:
                pixels = np.asarray(picture.convert("RGB"))
            self.writer.add_image(f"questions/{name}", pixels, run.step, dataformats="HWC")

    def close(self) -> None:
        """Write what is waiting."""
        self.writer.close()


def _last_step(folder: str) -> int:
    """Return the last step of the figures in a folder of event files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(folder).Reload()
    events = read.Scalars("questions/done") if "questions/done" in read.Tags()["scalars"] else []
    return max((event.step for event in events), default=0)


def _cell(value: object) -> str:
    return "" if value is None else " ".join(str(value).split()).replace("|", "\\|")
