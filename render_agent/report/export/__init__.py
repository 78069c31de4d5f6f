"""Exports: runs written for training, tables and viewers.

Imports `analysis.diagnosis`, the run folder and below. Start with `writers`, which writes the chosen format;
`result_rows` has the columns of the tables.
"""

LOGGERS = {
    "wandb": "render_agent.report.export.loggers:WandbLogger",
    "trackio": "render_agent.report.export.loggers:TrackioLogger",
    "tensorboard": "render_agent.report.export.loggers:TensorBoardLogger",
    "mlflow": "render_agent.report.export.loggers:MlflowLogger",
}
"""Values of `--log-to`."""
