"""The report: HTML pages that are written from a run and work from disk.

Start with `build.py`, then `index/index_page.py` and `question/question_page.py`.
"""
