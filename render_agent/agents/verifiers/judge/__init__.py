"""A vision-language model as judge of views: how well each would help to answer a question.

`verifier` asks it of candidate moves, `batch_score` and `command` of any pictures; a `rubric` says what counts. Imports
an engine through its seam only. Start reading in `batch_score`.
"""
