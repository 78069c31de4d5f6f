"""The run folder: its schema, its lines, its lock, how it is written turn by turn and read back.

Imports `config`, `dialogue`, `observation`, `questions` and `score`; nothing in it imports the scheduler.
Start with `folder`, whose `RunLog` writes a run and whose `RunFolder` reads it.
"""
