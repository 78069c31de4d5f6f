"""HTML report of a run. Its pages work when opened from disk.

Start with `build.py`, then `index/index_page.py` and `question/question_page.py`.
"""

PAGES = {  # name of the file without .html -> page, in the order of the links
    "pairs": "render_agent.report.pages.index.pairs_page:PairsPage",
    "answering": "render_agent.report.answering.answering_page:AnsweringPage",
}
