"""The plots of a report, as SVG by matplotlib.

Imports `analysis.report` and below. Start with `outcome_plots`.
"""
