"""Utilities that know nothing of questions: bounded parsing, atomic files, processes, console, web server.

Start with `whole_files.py` and `safe_parse.py`.
"""
