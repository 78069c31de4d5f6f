"""Pages that compare two or more runs. Start with `comparison_page.py`."""
