"""Answers and confidence during the dialogue, in reports and comparisons. Start with `answering_page.py`."""
