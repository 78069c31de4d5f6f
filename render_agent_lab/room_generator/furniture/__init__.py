"""Parametric furniture: a function a kind, each builds a piece from several parts.

Imports `room_generator.shapes` and `paint`. Start with `catalogue`.
"""
