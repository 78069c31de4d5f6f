"""Runs handed on to other programs: training, tables, viewers."""
