"""Parametric furniture: a function a kind, each builds a piece from several parts."""
