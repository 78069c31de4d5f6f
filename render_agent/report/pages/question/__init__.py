"""Question pages: turns, candidates and diagnosis. Start with `question_page.py`."""
