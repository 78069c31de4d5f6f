"""Browser tests of the index page: content, filters, sorting and keyboard navigation."""

import json
import shutil

import pytest
from conftest import with_timeout
from factories.pages import WIDTHS_AND_SCHEMES, assert_accessible, set_window
from factories.reports import build_index, run_rooms

from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.pages.index.index_page import COLUMNS, table_rows
from render_agent.report.pages.table import table_script
from render_agent.runs.read import RunData
from render_agent.score.chance import Fit
from render_agent.score.summary import score_name

TYPES = ("object_rel_distance", "object_rel_direction_easy", "object_counting")


@pytest.fixture(scope="module")
def report_with_views(tmp_path_factory):
    """Return the report of a run with views."""
    folder = run_rooms(
        tmp_path_factory.mktemp("seen"), scene=("room03", "room06"), type=TYPES, max_turns=3
    )
    return build_index(folder)


@pytest.fixture(scope="module")
def large_report(tmp_path_factory):
    """Return the report of a run without views on all bundled rooms, and its rows."""
    folder = run_rooms(tmp_path_factory.mktemp("many"), views="none", max_turns=3)
    return build_index(folder), table_rows(folder, {})


def listed_ids(page):
    """Return the question ids in the table in order."""
    return page.locator("#table tbody th a").all_inner_texts()


def cells(page, column):
    """Return the texts of a column of the table."""
    position = [each.name for each in COLUMNS].index(column) + 1
    return page.locator(f"#table tbody tr > :nth-child({position})").all_inner_texts()


def ids(rows):
    return [row["question_id"] for row in rows]


def open_index(page, index, after=""):
    page.goto(index.as_uri() + after)
    page.wait_for_selector("#filter:visible")


def test_index_matches_the_results(page, report_with_views):
    open_index(page, report_with_views)
    results = json.loads((report_with_views.parents[1] / "results.json").read_text("utf-8"))
    assert page.inner_text(".headline .figure b") == f"{results['official_raw']:.1f}"
    assert results["intervals"]["official_raw"] is None
    assert "no confidence interval" in page.inner_text(".headline")
    assert "PARTIAL" in page.inner_text(".stamps")
    assert page.inner_text("#score") == score_name(results)
    assert "Not for publication" in page.inner_text(".publish")
    assert all(note in page.inner_text(".summary") for note in results["baselines"].values())
    assert Fit.PUBLISHED in results["baselines"]["frequency"]
    plots = page.locator("img.plot").evaluate_all("all => all.map(image => image.src)")
    assert [src.rpartition("/")[2] for src in plots] == [
        "types.svg",
        "turns.svg",
        "causes.svg",
        "seen.svg",
        "coverage.svg",
        "time.svg",
    ]
    causes = cells(page, "cause")
    labels = {"score at least 50 %", "misjudged", "stopped early", "never looked", "unknown"}
    assert set(causes) <= labels
    coverage = cells(page, "coverage")
    assert all(0 < int(share) <= 100 for share in coverage)


def test_header_and_cells_have_the_same_columns(page, browser, report_with_views):
    """Compare the static page and the table created by its script."""
    run = RunData(report_with_views.parents[1])
    rows = table_rows(run, diagnose_run(run, 1))
    context = with_timeout(browser.new_context(java_script_enabled=False))
    for viewed in (context.new_page(), page):
        viewed.goto(report_with_views.as_uri())
        heads = viewed.locator("#table thead th")
        names = heads.evaluate_all("all => all.map(head => head.dataset.column)")
        assert names == [column.name for column in COLUMNS]
        table_rows_shown = viewed.locator("#table tbody tr")
        assert table_rows_shown.count() == len(rows)
        for row, cells in zip(rows[:3], table_rows_shown.all()[:3], strict=True):
            texts = cells.locator("> *").all_text_contents()
            assert len(texts) == len(COLUMNS)
            for column, text in zip(COLUMNS, texts, strict=True):
                value = row[column.name]
                assert (
                    "–"
                    if value is None
                    else f"{value:g}"
                    if isinstance(value, float)
                    else str(value)
                ) in text
    context.close()


def test_summary_fits_on_the_first_printed_page(page, report_with_views):
    open_index(page, report_with_views)
    page.emulate_media(media="print")
    try:
        page.set_viewport_size({"width": 688, "height": 1000})  # A4 within its margins
        summary = page.locator(".summary").bounding_box()
        assert summary["y"] + summary["height"] < 1000
        score, plot, facts = (
            page.locator(f".summary {part}").bounding_box()
            for part in (".headline", ".plotted", ".facts")
        )
        assert score["x"] + score["width"] <= plot["x"]
        assert facts["width"] > 680
        heads = page.locator("#table thead th:visible").all_inner_texts()
        assert all(heads)
        assert "Score (%)" in heads
    finally:
        page.emulate_media(media="screen")
        set_window(page, 1280, "light")


def test_rows_show_the_last_view(page, report_with_views):
    open_index(page, report_with_views)
    results = json.loads((report_with_views.parents[1] / "results.json").read_text("utf-8"))[
        "questions"
    ]
    last_images = {}
    for line in (report_with_views.parents[1] / "turns.jsonl").read_text("utf-8").splitlines():
        turn = json.loads(line)
        for view in turn["views"]:
            last_images[turn["question_id"]] = (
                report_with_views.parents[1] / view["file"]
            ).as_uri()
    thumbnails = page.locator("#table tbody img.thumb").evaluate_all(
        "all => all.map(image => image.src)"
    )
    assert thumbnails == [last_images[row["question_id"]] for row in results]
    load = "image => { image.loading = 'eager'; return image.decode() }"
    page.locator("#table tbody img.thumb").first.evaluate(load)


def test_table_has_pages_of_100_rows(page, large_report):
    index, rows = large_report
    open_index(page, index)
    assert len(rows) == 196
    assert listed_ids(page) == ids(rows)[:100]
    assert page.inner_text("#count") == "196 questions, 1 to 100 shown"
    page.click("#page-after")
    assert listed_ids(page) == ids(rows)[100:]
    assert page.inner_text("#count") == "196 questions, 101 to 196 shown"
    assert page.is_disabled("#page-after")
    page.click("#page-before")
    assert listed_ids(page) == ids(rows)[:100]


def test_filters_select_rows(page, large_report):
    index, rows = large_report
    open_index(page, index)
    for column in ("type", "scene", "result"):
        values = sorted({row[column] for row in rows})
        offered = page.locator(f"#filter select[name={column}] option").evaluate_all(
            "all => all.map(option => option.value)"
        )
        assert offered == ["", *values]
        for value in values[:2]:
            page.select_option(f"#filter select[name={column}]", value)
            matching = [row for row in rows if row[column] == value]
            assert 0 < len(matching) < len(rows)
            assert listed_ids(page) == ids(matching)[:100]
            assert page.inner_text("#count").startswith(f"{len(matching)} questions of 196")
        page.select_option(f"#filter select[name={column}]", "")


def test_filters_combine_with_search_and_reset(page, large_report):
    index, rows = large_report
    open_index(page, index)
    page.select_option("#filter select[name=scene]", "room03")
    page.fill("#filter input", "HOW chair")
    matching = [
        row
        for row in rows
        if row["scene"] == "room03"
        and all(word in row["text"].lower() for word in ("how", "chair"))
    ]
    assert listed_ids(page) == ids(matching)
    assert matching
    page.fill("#filter input", "no such words")
    assert listed_ids(page) == []
    assert page.inner_text("#count") == "0 questions of 196"
    page.click("#reset")
    assert listed_ids(page) == ids(rows)[:100]


def test_columns_sort_in_both_directions(page, large_report):
    index, rows = large_report
    open_index(page, index)

    def natural(value):
        if isinstance(value, str) and value.replace(".", "", 1).isdigit():
            return (0, float(value), "")
        return (1, 0, value.lower()) if isinstance(value, str) else (0, value, "")

    for column in ("score", "question_id", "answer"):  # numbers, numbers in texts, and texts
        head = page.locator(f"#table th[data-column={column}]")
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        by_id = {row["question_id"]: row[column] for row in rows}
        expected = sorted(natural(row[column]) for row in rows)
        assert [natural(by_id[name]) for name in listed_ids(page)] == expected[:100]
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert [natural(by_id[name]) for name in listed_ids(page)] == expected[::-1][:100]
        head.locator("button").click()
        assert head.get_attribute("aria-sort") is None
        assert listed_ids(page) == ids(rows)[:100]


def test_filter_is_kept_in_the_url_across_pages(page, large_report):
    index, rows = large_report
    open_index(page, index, "#scene=room02&result=score+below+50+%25&sort=-question_id")
    matching = [r for r in rows if r["scene"] == "room02" and r["outcome"] == "wrong"]
    expected = sorted(ids(matching), key=int, reverse=True)
    assert listed_ids(page) == expected
    assert page.input_value("#filter select[name=scene]") == "room02"
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#after")
    page.wait_for_load_state()  # the script handles keys from then on
    assert page.get_attribute("body", "data-question") == expected[1]
    page.keyboard.press("n")
    page.wait_for_selector(f"body[data-question='{expected[2]}']")
    page.wait_for_load_state()
    page.keyboard.press("u")
    page.wait_for_selector("#table tbody tr")
    page.wait_for_load_state()
    assert listed_ids(page) == expected
    assert page.evaluate("document.activeElement.textContent") == expected[2]
    page.keyboard.press("Enter")
    page.wait_for_selector(f"body[data-question='{expected[2]}']")
    page.go_back()
    page.wait_for_selector("#filter:visible")
    assert listed_ids(page) == expected


def test_keyboard_navigation_in_the_table(page, large_report):
    index, rows = large_report
    open_index(page, index)
    active = "document.activeElement.textContent"
    page.keyboard.press("j")
    assert page.evaluate(active) == rows[0]["question_id"]
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(active) == rows[2]["question_id"]
    page.keyboard.press("k")
    assert page.evaluate(active) == rows[1]["question_id"]
    page.locator("#table tbody th a").nth(99).focus()
    page.keyboard.press("j")
    assert page.evaluate(active) == rows[100]["question_id"]
    page.keyboard.press("k")
    assert page.evaluate(active) == rows[99]["question_id"]
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("xj?")
    assert page.input_value("#filter input") == "xj?"
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    assert listed_ids(page) == ids(rows)[:100]
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")


def test_long_answers_are_clamped(page, report_with_views, tmp_path):
    open_index(page, report_with_views)
    cell = page.locator("#table td.answer .clamped").first
    cell.evaluate("cell => { cell.textContent = 'and '.repeat(900); }")
    assert page.locator("#table tbody tr").first.bounding_box()["height"] < 120


@WIDTHS_AND_SCHEMES
def test_accessibility(page, report_with_views, width, scheme):
    set_window(page, width, scheme)
    page.goto(report_with_views.as_uri())
    assert_accessible(page, width)


@pytest.mark.slow
def test_paging_with_all_questions_of_a_benchmark(page, large_report, tmp_path):
    index, rows = large_report
    copy = tmp_path / "report"
    shutil.copytree(index.parent, copy, ignore=shutil.ignore_patterns("questions", "plans"))
    all_rows = [
        {
            **rows[number % len(rows)],
            "question_id": f"q{number}",
            "text": f"question {number} of many",
        }
        for number in range(5_130)
    ]
    (copy / "questions.js").write_bytes(table_script(all_rows, COLUMNS))
    open_index(page, copy / "index.html", "#sort=-question_id")
    assert page.inner_text("#count") == "5,130 questions, 1 to 100 shown"
    assert listed_ids(page) == [f"q{number}" for number in range(5_129, 5_029, -1)]
    page.evaluate("for (let n = 0; n < 51; n++) document.getElementById('page-after').click()")
    assert page.inner_text("#count") == "5,130 questions, 5,101 to 5,130 shown"
    assert listed_ids(page) == [f"q{number}" for number in range(29, -1, -1)]
    page.fill("#filter input", "question 77 many")
    matching = [row["question_id"] for row in all_rows if "77" in row["text"]]
    assert set(listed_ids(page)) == set(matching)
