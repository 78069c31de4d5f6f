"""Reads which option or number an answer states."""
