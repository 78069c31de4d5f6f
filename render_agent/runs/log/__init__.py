"""The run folder: its schema, its lines, its lock, and how it is written turn by turn.

Imports `config`, `dialogue`, `views`, `tasks` and `score`; nothing in it imports the scheduler.
Start with `writer`, whose `RunLog` writes a run; `runs.read` reads it.
"""
