"""The live view of a run: its log followed, its pages made on demand.

Imports `analysis.report` and `web`. Start with `server`, which answers requests, then `run`.
"""
