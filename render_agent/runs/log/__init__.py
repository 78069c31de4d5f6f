"""The run folder: written turn by turn, read back, continued. The log is the truth."""
