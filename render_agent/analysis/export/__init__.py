"""Exports: runs handed on to training, tables and viewers.

Imports the run folder and below. Start with `writers`, which writes the format that was asked for.
"""
