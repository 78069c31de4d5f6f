"""The plots of a report, drawn by matplotlib as SVG files.

Imports `analysis.report.data` and below. Start with `run_plots`; `svg` draws every SVG of the project.
"""
