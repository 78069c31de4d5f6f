"""The page over all runs of a folder: `report --all` and `view --all`."""

import json
import os
import re
import shutil
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from conftest import with_timeout
from factories.reports import HOSTILE
from factories.runs import make_questions, play, walking_engine

from render_agent.errors import RunLogError, UsageError
from render_agent.report.comparison.run_list import differing_options, run_row
from render_agent.report.pages import live as module
from render_agent.report.pages.build import build_report
from render_agent.report.pages.index.runs_page import write_runs_page
from render_agent.report.pages.live import LiveReports, serve_runs
from render_agent.runs.read import RunData, list_runs

NAME = HOSTILE.replace("/", "_")[:60] + "\x1b[2J"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two finished runs (one PARTIAL), one with a hostile name, an unfinished one, and damaged ones."""
    made = tmp_path_factory.mktemp("runs_page")
    questions = make_questions(made, 4)
    output = made / "runs"
    first, _ = play(made, questions, walking_engine(4))
    second, _ = play(made, questions, walking_engine(4), limit=2, max_turns=5, seed=3)
    for path, name in ((first, "20260101T000000_first"), (second, "20260102T000000_second")):
        path.rename(output / name)
    for name in (NAME, "unfinished", "empty", "damaged", "bare"):
        shutil.copytree(output / "20260101T000000_first", output / name)
    for file in ("results.json", "results.csv"):
        (output / "unfinished" / file).unlink()
    (output / "empty" / "results.json").write_bytes(b"")
    (output / "damaged" / "config.json").write_text("{")
    for file in (output / "bare").iterdir():
        if file.name != "config.json":
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    return output


@pytest.fixture
def page(folder):
    text = write_runs_page(folder).read_text("utf-8")
    yield text
    shutil.rmtree(folder / "report")


def table_row(text, name):
    (row,) = re.findall(rf"<tr>\s*<th[^>]*>[^<]*(?:<a[^>]*>)?{re.escape(name)}.*?</tr>", text, re.S)
    return row


def test_every_run_is_a_row(folder, page):
    assert page.count('<th scope="row">') == len(list_runs(folder)) == 7
    assert "PARTIAL" in table_row(page, "20260102T000000_second")
    assert "PARTIAL" not in table_row(page, "20260101T000000_first")
    assert "interrupted" in table_row(page, "unfinished")
    for name in ("empty", "damaged"):
        assert "damaged" in table_row(page, name).replace(name, "", 1)


def test_runs_page_matches_ls(folder, page):
    for path in list_runs(folder):
        row = run_row(path)
        if path.name.startswith("2026"):
            text = table_row(page, path.name)
            assert f'data-value="{row["official_raw"]}"' in text
            assert row["date"] in text


def test_options_that_differ(folder, page):
    second = table_row(page, "20260102T000000_second")
    assert all(f"<code>--{o}</code>" in second for o in ("limit 2", "max-turns 5", "seed 3"))
    assert "<code>" not in table_row(page, "20260101T000000_first")
    rows = [{"options": o} for o in ({"seed": 1, "up": "z"}, {"seed": 0, "up": "z"}, {})]
    assert differing_options(rows) == [["--seed 1"], [], []]


def test_hostile_names_are_escaped(page):
    assert "<script>" not in re.sub(r'<script src="assets/sort.js" defer></script>', "", page)
    assert "\x1b" not in page
    assert "\\u001b[2J" in page


def test_reports_that_exist_are_linked(folder, page):
    assert "<a href=" not in re.sub(r"<a (class|href=\"#)", "", page)
    try:
        for name in (NAME, "unfinished"):
            build_report(RunData(folder / name), processes=1, diagnose=False)
        linked = write_runs_page(folder).read_text("utf-8")
        hrefs = re.findall(r'<a href="(\.\./[^"]*)"', linked)
        assert sorted(hrefs) == sorted(
            f"../{quote(name, safe='')}/report/index.html" for name in (NAME, "unfinished")
        )
    finally:
        for name in (NAME, "unfinished"):
            shutil.rmtree(folder / name / "report", ignore_errors=True)


def test_folders_of_others_are_not_replaced(folder, tmp_path):
    with pytest.raises(RunLogError, match="no runs"):
        write_runs_page(tmp_path)
    assert not list(tmp_path.iterdir())
    (folder / "report").mkdir()
    (folder / "report" / "thesis.tex").write_text("years of work")
    try:
        with pytest.raises(UsageError, match="not a report"):
            write_runs_page(folder)
        assert (folder / "report" / "thesis.tex").is_file()
    finally:
        shutil.rmtree(folder / "report")


@pytest.fixture
def server(folder, monkeypatch):
    """Serve the page; reports are written in a thread instead of the main thread."""

    @contextmanager
    def serve(build=None):
        if build is not None:
            monkeypatch.setattr(module, "build_report", build)
        addresses, started, servers = [], threading.Event(), []
        real = module.LocalServer

        def keep_server(port):
            servers.append(real(port))
            return servers[0]

        monkeypatch.setattr(module, "LocalServer", keep_server)

        def on_start(address):
            addresses.append(address)
            started.set()

        thread = threading.Thread(
            target=serve_runs, args=(folder, LiveReports(1), 0, on_start), daemon=True
        )
        thread.start()
        assert started.wait(60)
        yield addresses[0]
        servers[0].close()

    yield serve
    for path in list_runs(folder):
        shutil.rmtree(path / "report", ignore_errors=True)


def get(address):
    with urllib.request.urlopen(address, timeout=300) as response:
        return response.read().decode()


def test_view_writes_a_report_when_it_is_opened(folder, server):
    run = "20260101T000000_first"
    with server() as address:
        text = get(address)
        assert run in text
        assert f'href="../{run}/report/index.html"' in text
        assert "../damaged/" not in text
        assert not (folder / run / "report").exists()
        assert run in get(f"{address}{run}/report/index.html")
        assert (folder / run / "report" / "index.html").is_file()
        assert "window.REPORT" in get(f"{address}{run}/report/questions.js")
        image = next((folder / run / "views").rglob("*.png")).relative_to(folder)
        with urllib.request.urlopen(address + image.as_posix()) as response:
            assert response.headers["Content-Type"] == "image/png"
        for path in (
            f"{run}/config.json",
            "nowhere/report/index.html",
            f"{run}/report/../config.json",
        ):
            with pytest.raises(urllib.error.HTTPError):
                get(address + path)


def test_view_rewrites_only_outdated_reports(folder, server):
    run = folder / "20260102T000000_second"
    built = []

    def build(data, **options):
        built.append(data.name)
        (data.path / "report").mkdir(exist_ok=True)
        index = data.path / "report" / "index.html"
        index.write_text("<p>made</p>")
        return index

    with server(build) as address:
        url = f"{address}{run.name}/report/index.html"
        assert [get(url), get(url)] == ["<p>made</p>"] * 2
        assert built == [run.name]
        os.utime(run / "report" / "index.html", (0, 0))
        get(url)  # not again at once
        assert built == [run.name]


def test_errors_of_a_report_are_shown(folder, server):
    def build(data, **options):
        raise RunLogError("the log is damaged")

    with server(build) as address, pytest.raises(urllib.error.HTTPError) as refused:
        get(f"{address}20260101T000000_first/report/index.html")
    assert "the log is damaged" in refused.value.read().decode()


def test_columns_can_be_sorted(folder, browser):
    write_runs_page(folder)
    context = with_timeout(browser.new_context())
    try:
        opened = context.new_page()
        opened.goto((folder / "report" / "index.html").as_uri())
        names = "[...document.querySelectorAll('tbody th')].map(h => h.childNodes[0].textContent.trim() || h.textContent.trim())"
        before = opened.evaluate(names)
        for expected in ("ascending", "descending"):
            opened.get_by_role("button", name="questions").click()
            values = opened.evaluate(
                "[...document.querySelectorAll('tbody tr')].map(r => r.cells[5].dataset.value)"
            )
            numbers = [int(value) for value in values if value]
            assert numbers == sorted(numbers, reverse=expected == "descending")
            assert values[len(numbers) :] == [""] * (len(values) - len(numbers))
            assert opened.locator("[aria-sort]").get_attribute("aria-sort") == expected
        assert sorted(opened.evaluate(names)) == sorted(before)
    finally:
        context.close()
        shutil.rmtree(folder / "report")


def test_commands(folder, type_in):
    code, out, err = type_in("report", "--all", "--runs", folder, folder=folder)
    assert (code, out.strip()) == (0, str(folder / "report" / "index.html")), err
    shutil.rmtree(folder / "report")
    for command in ("report", "view"):
        code, _, err = type_in(command, "unfinished", "--all", "--runs", folder, folder=folder)
        assert code == 2, err
        assert "--all" in err
    code, out, err = type_in("ls", "--json", "--runs", folder, folder=folder)
    assert code == 0
    assert [row["run"] for row in json.loads(out)] == [path.name for path in list_runs(folder)]
