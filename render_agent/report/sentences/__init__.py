"""Sentences about figures, in a module per reader. Each claim is next to the test that it needs.

`findings` is for the index page, `contrasts` and `causes` for diagnoses, `verdicts` for comparisons, `facts` for all.
"""
