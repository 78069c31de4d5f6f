"""The commands: what each does and prints, and its exit code.

Imports every room below `cli`. Start with `runs`, which starts and continues runs.
"""
