"""Parametric furniture: one function per kind. Start with `catalogue.py`."""
