"""Loggers: runs told to the tools that teams watch their experiments in (`--log-to`, `export --format wandb`).

Imports `analysis.report` (the report is handed on as an artefact), the run folder and below; each module is one
tool's, behind whose door its library stays. Start with `observer`, which hands a run's figures on; `base` has what a
logger is.
"""
