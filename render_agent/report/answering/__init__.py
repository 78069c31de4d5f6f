"""How a model came to its answers, in reports and comparisons. Start with `answering_page.py`."""
