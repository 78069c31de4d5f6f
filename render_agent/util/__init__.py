"""General utilities, independent of questions and scans: bounded parsing, atomic files, processes, console, web server.

Start with `atomic_files.py` and `safe_parse.py`.
"""
