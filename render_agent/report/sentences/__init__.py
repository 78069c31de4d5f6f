"""Sentences about figures, in a module per reader. A claim stands beside the test that it needs.

`findings` is for the index page, `contrasts` and `causes` for diagnoses, `verdicts` for comparisons, `facts` for all.
"""
