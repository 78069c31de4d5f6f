"""Furnished rooms with exact truths, and VSI-Bench's questions about them."""
