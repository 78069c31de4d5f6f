"""The plots of a report, as SVG by matplotlib.

Imports `analysis.report.data` and below. Start with `vector_plot`, which draws a plot, then `outcome_plots`.
"""
