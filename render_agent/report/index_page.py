"""The index of a report: what the run came to, and the table of its questions."""

from __future__ import annotations

from pathlib import Path

from render_agent.report.data import ReportData
from render_agent.report.rows import question_rows, script
from render_agent.run_log.files import write_whole
from render_agent.web.templates import environment


def write(report: ReportData, place: Path) -> None:
    """Write the index and `questions.js` into the folder of the report."""
    rows = question_rows(report)
    write_whole(place / "questions.js", script(rows), durable=False)
    page = environment("report").get_template("index.html")
    words = page.render(**report.frame, root="", rows=rows)
    write_whole(place / "index.html", words.encode("utf-8", "backslashreplace"), durable=False)
