"""The pages of a run: written from its folder, opened from disk."""
