"""The page "add a report page" works: the report contains the page, and its index page links to it."""

from html import unescape

from factories.documentation import blocks
from factories.packages import install_page
from factories.reports import run_rooms

from render_agent.report.pages.build import build_report
from render_agent.runs.read import RunData


def install(monkeypatch, folder):
    """Install the package of the docs page; return the words of its command."""
    words = install_page(monkeypatch, folder, "add-a-page")
    (template,) = blocks("extending/add-a-page.md", "html")
    (folder / "site" / "longest_dialogues.html").write_text(template, "utf-8")
    return words


def test_page_of_a_package_is_written_and_linked(tmp_path, monkeypatch, type_in):
    words = install(monkeypatch, tmp_path)
    path = run_rooms(tmp_path / "experiment_logs", id=("0", "1"), max_turns=2).path
    code, _, output = type_in(*words, "--runs", path.parent, "--no-diagnosis", folder=tmp_path)
    assert code == 0, output
    index = (path / "report" / "index.html").read_text("utf-8")
    page = unescape((path / "report" / "longest.html").read_text("utf-8"))
    assert index.count('<a href="longest.html">Longest dialogues</a>') == 2
    assert "pairs.html" not in index
    for state in RunData(path).states:
        assert len(state.turns) == 2
        assert f'<a href="questions/{state.id}.html">{state.question.text}</a>: 2 turns' in page


def test_page_without_variables_is_not_linked(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path)
    path = run_rooms(tmp_path / "runs", id=("0", "1"), max_turns=1).path
    index = build_report(RunData(path), processes=1, diagnose=False)
    assert "longest" not in index.read_text("utf-8")
    assert not index.with_name("longest.html").exists()
