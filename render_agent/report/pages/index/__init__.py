"""Index page of a report: scores, plots and the table of questions. Start with `index_page.py`."""
