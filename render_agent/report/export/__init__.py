"""Export of runs as training data, tables and viewer files. Start with `writers.py`; `loggers.py` implements
`--log-to`.
"""

# values of --log-to
LOGGERS = {
    "wandb": "render_agent.report.export.loggers:WandbLogger",
    "trackio": "render_agent.report.export.loggers:TrackioLogger",
    "tensorboard": "render_agent.report.export.loggers:TensorBoardLogger",
    "mlflow": "render_agent.report.export.loggers:MlflowLogger",
}
