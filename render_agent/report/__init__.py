"""What is made of run folders: diagnosis, reports, exports, sweeps, live pages, scored predictions.

Imports the core, and is imported by `api` and `cli` alone. Start with `report.build`, which writes a report,
or with the folder that is named after the command.
"""
