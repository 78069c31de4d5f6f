"""What each command does and prints; each returns its exit code.

Imports everything below `cli`. Start with `runs`, which starts and continues runs.
"""
