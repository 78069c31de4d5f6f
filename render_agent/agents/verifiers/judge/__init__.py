"""A vision-language model as judge of views: how well each picture would help to answer a question.

Holds the `verifier` that rates candidate moves, and `batch_score`, which rates any pictures by a `rubric`. May import an
engine through its protocol only. Start with `batch_score`.
"""
