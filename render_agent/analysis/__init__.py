"""What is made of run folders: diagnosis, reports, exports, sweeps, live pages, comparisons.

Imports the core, and is imported by `api` and `cli` alone. Start with `report.build`, or with the
folder of what you look for.
"""
