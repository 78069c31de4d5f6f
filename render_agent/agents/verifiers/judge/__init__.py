"""A vision-language model as a judge of views.

Start with `batch_score.py`, which rates images by a rubric; `verifier.py` rates candidate moves with it.
"""
