"""The operating system: processes, memory, signals, atomic files, system libraries.

Imports `errors` and `text`. Start with `whole_files`, with which everything that a run keeps is written.
"""
