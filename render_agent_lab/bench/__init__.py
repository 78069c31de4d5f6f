"""Measurements of schedules and engines, side by side in one run on the machine at hand."""
