"""What every input is held to, whatever it says."""

MOST_BYTES = 1 << 16
"""Of an input."""

MOST_SECONDS = 20.0
"""Of a processor that one input may take; waiting for others does not count."""

MOST_WAITING = 600.0
"""Seconds until an input that takes no processor's time either is given up."""

MOST_MEMORY = 512 << 20
"""Bytes that one input may take beyond what the process has: both of address space and of pages in use."""

MOST_WORDS = 2_000
"""Characters of the sentence that refuses an input."""
