"""HTML report of a run. Its pages work when opened from disk.

Start with `build.py`, then `index/index_page.py` and `question/question_page.py`.
"""
