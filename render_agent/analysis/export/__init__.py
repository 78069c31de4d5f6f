"""Exports: runs written for training, tables and viewers.

Imports `analysis.diagnosis`, the run folder and below. Start with `writers`, which writes the chosen format;
`result_rows` has the columns of the tables.
"""
