"""The operating system: threads, memory, files that are whole or absent, child processes, system libraries.

Imports `errors` and `text`. Start with `whole_files`, with which everything that a run keeps is written.
"""
