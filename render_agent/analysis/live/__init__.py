"""The live view of a run: its log followed, its pages made when they are asked for.

Imports `analysis.report` and `web`. Start with `server`.
"""
