"""The dialogue of a question: state, prompt, reply protocol, answers, moves.

Imports `scene`, `geometry`, `config` and `text`; knows nothing of renderers, engines or files.
Start with `state`, whose `QuestionState` is the only thing that changes.
"""
