"""What is made of run folders: diagnosis, report, export, sweeps, live pages.

Imports the core and is imported by `api` and `cli` alone. Start with the folder of what you look for.
"""
