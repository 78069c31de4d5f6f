"""Runs: the two phases of a run, its turn-by-turn log, and how runs are resumed and read.

Start with `turn.py`, one turn from view to log; then `phase_controller.py`, `scheduler.py` and `runner.py`. `read.py`
reads a run folder, and `loggers.py` implements `--log-to`.
"""

# values of --log-to
LOGGERS = {
    "wandb": "render_agent.runs.loggers:WandbLogger",
    "trackio": "render_agent.runs.loggers:TrackioLogger",
    "tensorboard": "render_agent.runs.loggers:TensorBoardLogger",
    "mlflow": "render_agent.runs.loggers:MlflowLogger",
}
