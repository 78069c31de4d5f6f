"""The audit of a benchmark: how much of it is answered without looking. Start with `audit`."""
