"""The page of a question: its turns, candidates and diagnosis. Start with `question_page.py`."""
