"""The diagnosis: why a question was answered as it was. Start with `diagnose.py`, then `judge.py`, which finds the cause."""
