"""The diagnosis: why a question went as it did, by what the camera saw of what the question names.

Imports `render.visibility`, `questions` and the run folder. Start with `diagnose`, which diagnoses a run, then
`judge`, which finds the cause of one question.
"""
