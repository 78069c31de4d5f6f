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
from render_agent.score.summary import score_name

TYPES = ("object_rel_distance", "object_rel_direction_easy", "object_counting")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Return the report of a run with views."""
    folder = run_rooms(
        tmp_path_factory.mktemp("seen"), scene=("room03", "room06"), type=TYPES, max_turns=3
    )
    return build_index(folder)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return the report of a run without views on all bundled rooms, and its rows."""
    folder = run_rooms(tmp_path_factory.mktemp("many"), views="none", max_turns=3)
    return build_index(folder), table_rows(folder, {})


def shown(page):
    """Return the question ids in the table in order."""
    return page.locator("#table tbody th a").all_inner_texts()


def cells(page, column):
    """Return the texts of a column of the table."""
    place = [each.name for each in COLUMNS].index(column) + 1
    return page.locator(f"#table tbody tr > :nth-child({place})").all_inner_texts()


def ids(rows):
    return [row["question_id"] for row in rows]


def opened(page, index, after=""):
    page.goto(index.as_uri() + after)
    page.wait_for_selector("#filter:visible")


def test_index_matches_the_results(page, seen):
    opened(page, seen)
    results = json.loads((seen.parents[1] / "results.json").read_text("utf-8"))
    assert page.inner_text(".headline .figure b") == f"{results['official']:.1f}"
    assert results["intervals"]["official"] is None
    assert "no confidence interval" in page.inner_text(".headline")
    assert "PARTIAL" in page.inner_text(".stamps")
    assert page.inner_text("#score") == score_name(results)
    assert "Not for publication" in page.inner_text(".publish")
    plots = page.locator("img.plot").evaluate_all("all => all.map(image => image.src)")
    assert [src.rpartition("/")[2] for src in plots] == [
        "types.svg",
        "turns.svg",
        "images.svg",
        "causes.svg",
        "seen.svg",
        "coverage.svg",
        "time.svg",
    ]
    causes = cells(page, "cause")
    assert set(causes) <= {"right", "misjudged", "stopped early", "never looked", "unknown"}
    coverage = cells(page, "coverage")
    assert all(0 < int(share) <= 100 for share in coverage)


def test_header_and_cells_have_the_same_columns(page, browser, seen):
    """Compare the static page and the table created by its script."""
    run = RunData(seen.parents[1])
    rows = table_rows(run, diagnose_run(run, 1))
    context = with_timeout(browser.new_context(java_script_enabled=False))
    for looked in (context.new_page(), page):
        looked.goto(seen.as_uri())
        heads = looked.locator("#table thead th")
        names = heads.evaluate_all("all => all.map(head => head.dataset.column)")
        assert names == [column.name for column in COLUMNS]
        drawn = looked.locator("#table tbody tr")
        assert drawn.count() == len(rows)
        for row, cells in zip(rows[:3], drawn.all()[:3], strict=True):
            texts = cells.locator("> *").all_text_contents()
            assert len(texts) == len(COLUMNS)
            for column, text in zip(COLUMNS, texts, strict=True):
                said = row[column.name]
                assert (
                    "–" if said is None else f"{said:g}" if isinstance(said, float) else str(said)
                ) in text
    context.close()


def test_rows_show_the_last_view(page, seen):
    opened(page, seen)
    results = json.loads((seen.parents[1] / "results.json").read_text("utf-8"))["questions"]
    shown_last = {}
    for line in (seen.parents[1] / "turns.jsonl").read_text("utf-8").splitlines():
        turn = json.loads(line)
        for view in turn["views"]:
            shown_last[turn["question_id"]] = (seen.parents[1] / view["file"]).as_uri()
    drawn = page.locator("#table tbody img.thumb").evaluate_all(
        "all => all.map(image => image.src)"
    )
    assert drawn == [shown_last[row["question_id"]] for row in results]
    load = "image => { image.loading = 'eager'; return image.decode() }"
    page.locator("#table tbody img.thumb").first.evaluate(load)


def test_table_has_pages_of_100_rows(page, many):
    index, rows = many
    opened(page, index)
    assert len(rows) == 160
    assert shown(page) == ids(rows)[:100]
    assert page.inner_text("#count") == "160 questions, 1 to 100 shown"
    page.click("#page-after")
    assert shown(page) == ids(rows)[100:]
    assert page.inner_text("#count") == "160 questions, 101 to 160 shown"
    assert page.is_disabled("#page-after")
    page.click("#page-before")
    assert shown(page) == ids(rows)[:100]


def test_filters_select_rows(page, many):
    index, rows = many
    opened(page, index)
    for column in ("type", "scene", "outcome"):
        values = sorted({row[column] for row in rows})
        offered = page.locator(f"#filter select[name={column}] option").evaluate_all(
            "all => all.map(option => option.value)"
        )
        assert offered == ["", *values]
        for wanted in values[:2]:
            page.select_option(f"#filter select[name={column}]", wanted)
            kept = [row for row in rows if row[column] == wanted]
            assert 0 < len(kept) < len(rows)
            assert shown(page) == ids(kept)[:100]
            assert page.inner_text("#count").startswith(f"{len(kept)} questions of 160")
        page.select_option(f"#filter select[name={column}]", "")


def test_filters_combine_with_search_and_reset(page, many):
    index, rows = many
    opened(page, index)
    page.select_option("#filter select[name=scene]", "room03")
    page.fill("#filter input", "HOW chair")
    kept = [
        row
        for row in rows
        if row["scene"] == "room03"
        and all(word in row["text"].lower() for word in ("how", "chair"))
    ]
    assert shown(page) == ids(kept)
    assert kept
    page.fill("#filter input", "no such words")
    assert shown(page) == []
    assert page.inner_text("#count") == "0 questions of 160"
    page.click("#reset")
    assert shown(page) == ids(rows)[:100]


def test_columns_sort_in_both_directions(page, many):
    index, rows = many
    opened(page, index)

    def natural(value):
        if isinstance(value, str) and value.replace(".", "", 1).isdigit():
            return (0, float(value), "")
        return (1, 0, value.lower()) if isinstance(value, str) else (0, value, "")

    for column in ("score", "question_id", "answer"):  # numbers, numbers in texts, and texts
        head = page.locator(f"#table th[data-column={column}]")
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        by_id = {row["question_id"]: row[column] for row in rows}
        wanted = sorted(natural(row[column]) for row in rows)
        assert [natural(by_id[name]) for name in shown(page)] == wanted[:100]
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert [natural(by_id[name]) for name in shown(page)] == wanted[::-1][:100]
        head.locator("button").click()
        assert head.get_attribute("aria-sort") is None
        assert shown(page) == ids(rows)[:100]


def test_filter_is_kept_in_the_url_across_pages(page, many):
    index, rows = many
    opened(page, index, "#scene=room02&outcome=wrong&sort=-question_id")
    kept = [r for r in rows if r["scene"] == "room02" and r["outcome"] == "wrong"]
    wanted = sorted(ids(kept), key=int, reverse=True)
    assert shown(page) == wanted
    assert page.input_value("#filter select[name=scene]") == "room02"
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#after")
    assert page.get_attribute("body", "data-question") == wanted[1]
    page.keyboard.press("n")
    page.wait_for_selector(f"body[data-question='{wanted[2]}']")
    page.keyboard.press("u")
    page.wait_for_selector("#table tbody tr")
    assert shown(page) == wanted
    assert page.evaluate("document.activeElement.textContent") == wanted[2]
    page.keyboard.press("Enter")
    page.wait_for_selector(f"body[data-question='{wanted[2]}']")
    page.go_back()
    page.wait_for_selector("#filter:visible")
    assert shown(page) == wanted


def test_keyboard_navigation_in_the_table(page, many):
    index, rows = many
    opened(page, index)
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
    assert shown(page) == ids(rows)[:100]
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")


def test_long_answers_are_clamped(page, seen, tmp_path):
    opened(page, seen)
    cell = page.locator("#table td.answer .clamped").first
    cell.evaluate("cell => { cell.textContent = 'and '.repeat(900); }")
    assert page.locator("#table tbody tr").first.bounding_box()["height"] < 120


@WIDTHS_AND_SCHEMES
def test_accessibility(page, seen, width, scheme):
    set_window(page, width, scheme)
    page.goto(seen.as_uri())
    assert_accessible(page, width)


@pytest.mark.slow
def test_paging_with_all_questions_of_a_benchmark(page, many, tmp_path):
    index, rows = many
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
    opened(page, copy / "index.html", "#sort=-question_id")
    assert page.inner_text("#count") == "5,130 questions, 1 to 100 shown"
    assert shown(page) == [f"q{number}" for number in range(5_129, 5_029, -1)]
    page.evaluate("for (let n = 0; n < 51; n++) document.getElementById('page-after').click()")
    assert page.inner_text("#count") == "5,130 questions, 5,101 to 5,130 shown"
    assert shown(page) == [f"q{number}" for number in range(29, -1, -1)]
    page.fill("#filter input", "question 77 many")
    kept = [row["question_id"] for row in all_rows if "77" in row["text"]]
    assert set(shown(page)) == set(kept)
