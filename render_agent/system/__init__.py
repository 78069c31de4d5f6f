"""The operating system: threads, memory, files that are whole or absent, child processes, system libraries.

Imports only `errors` and `text`. Start with `whole_files`, which everything that a run keeps is written with.
"""
