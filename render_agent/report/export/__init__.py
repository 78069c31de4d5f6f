"""Exports of runs for training, tables and viewers. Start with `writers.py`; `loggers.py` has the parts of `--log-to`."""

LOGGERS = {
    "wandb": "render_agent.report.export.loggers:WandbLogger",
    "trackio": "render_agent.report.export.loggers:TrackioLogger",
    "tensorboard": "render_agent.report.export.loggers:TensorBoardLogger",
    "mlflow": "render_agent.report.export.loggers:MlflowLogger",
}
"""Values of `--log-to`."""
