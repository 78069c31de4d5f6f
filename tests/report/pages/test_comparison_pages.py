"""Browser tests of comparison pages."""

import json
import shutil

import pytest
from click.testing import CliRunner
from factories.pages import WIDTHS_AND_SCHEMES, assert_accessible, set_window
from factories.reports import HOSTILE, assert_references_resolve, run_rooms
from factories.runs import make_questions, play

from render_agent.cli.main import cli
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.runs.read import RunData
from render_agent.score.comparison import Side, compare

# the ground truth is 3 for even question ids and B for odd ones
ANSWERS = {
    "first": {"0": "3", "1": "A", "2": "3", "3": "B", "4": "7", "5": "A"},
    "second": {"0": "9", "1": "B", "2": "3", "3": "A", "4": "3", "5": "A"},
    "third": {"0": "3", "1": "B", "2": "3", "3": "B", "4": "7", "5": "B"},
}


def scripted_answers(answers, steps):
    """Return an engine that makes a number of moves and then gives these answers."""
    step = json.dumps({"rotation_angle_degrees": 30, "forward_meters": 0.3, "reasoning": HOSTILE})
    return ScriptedEngine(
        ReplayPolicy(
            {
                key: [step] * steps + [json.dumps({"answer": answer, "done": True})]
                for key, answer in answers.items()
            }
        )
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the output folder and the names of three runs on the same six questions."""
    folder = tmp_path_factory.mktemp("compared")
    questions = make_questions(folder, 6)
    paths = [
        play(folder, questions, scripted_answers(answers, steps), max_turns=4)[0]
        for steps, answers in zip((2, 1, 0), ANSWERS.values(), strict=True)
    ]
    return folder / "runs", [path.name for path in paths]


def run_cli(*arguments):
    return CliRunner().invoke(cli, [str(word) for word in arguments])


@pytest.fixture(scope="module")
def comparison_page(runs):
    """Return the index page of the comparison of the first two runs."""
    output, names = runs
    result = run_cli("compare", *names[:2], "--output", output, "--page")
    assert result.exit_code == 0, result.output
    index = output / "compare" / "-".join(names[:2]) / "index.html"
    assert str(index) in result.output
    return index


def changed_outcomes(page):
    rows = page.locator("#changed tbody tr:visible")
    return {
        row.locator("th a").inner_text(): row.locator("td").first.inner_text() for row in rows.all()
    }


def test_table_matches_compare(page, runs, comparison_page):
    output, names = runs
    sides = [Side(name, RunData(output / name).results) for name in names[:2]]
    official = compare(*sides)["differences"]["official_raw"]
    page.goto(comparison_page.as_uri())
    assert "B − A" in page.inner_text(".found")
    assert "VSI-Bench score" in page.inner_text(".found")
    cells = page.locator(".scores tr.mean td").all_inner_texts()
    scores = [side.results["official_raw"] for side in sides]
    assert [cells[0], cells[2]] == [f"{score:.1f}" for score in scores]
    assert cells[4] == f"{official['difference']:+.1f}"
    assert page.locator("img.plot").first.get_attribute("src") == "plots/differences.svg"
    rows = page.locator(".compared-runs tbody tr")
    assert rows.count() == 2
    assert all(name in rows.nth(n).inner_text() for n, name in enumerate(names[:2]))


def test_tables_can_be_copied(page, runs, comparison_page):
    output, names = runs
    page.goto(comparison_page.as_uri())
    page.click(".copies summary")
    for kind in ("markdown", "latex", "csv"):
        result = run_cli("compare", *names[:2], "--output", output, "--table", kind)
        assert result.exit_code == 0, result.output
        table = page.inner_text(f"#copy-{kind}").replace("A", "a").replace("B", "b")
        assert table.strip() == result.stdout.replace("A", "a").replace("B", "b").strip()
    page.click("[data-copies=copy-latex]")
    assert page.inner_text("[data-copies=copy-latex]") == "Copied"


def test_options_that_differ_are_listed(page, tmp_path):
    runs = [
        run_rooms(tmp_path / model, id=("5",), model=model, temperature=temperature).path
        for model, temperature in (("random", 0.0), ("oracle", 0.5))
    ]
    result = run_cli("compare", *runs, "--page", tmp_path / "pages", "--no-diagnosis")
    assert result.exit_code == 0, result.output
    page.goto((tmp_path / "pages" / "index.html").as_uri())
    rows = [row.inner_text().split("\t") for row in page.locator(".differing tbody tr").all()]
    assert rows == [["--model", "random", "oracle"], ["Temperature", "0 (greedy)", "0.5"]]
    (question,) = (tmp_path / "pages" / "questions").glob("*.html")
    text = question.read_text("utf-8")
    for model, temperature in (("random", "0 (greedy)"), ("oracle", "0.5")):
        assert f"--model: {model}, Temperature: {temperature}<" in text


def test_changed_questions_are_listed_and_filtered(page, comparison_page):
    page.goto(comparison_page.as_uri())
    assert changed_outcomes(page) == {"0": "lost", "1": "gained", "3": "lost", "4": "gained"}
    page.select_option("form.filter [name=outcome]", "gained")
    assert changed_outcomes(page) == {"1": "gained", "4": "gained"}
    assert page.inner_text("#count") == "2 of 4 questions"
    page.select_option("form.filter [name=type]", "object_counting")
    assert changed_outcomes(page) == {"4": "gained"}
    page.reload()
    assert changed_outcomes(page) == {"4": "gained"}
    page.select_option("form.filter [name=outcome]", "")
    page.select_option("form.filter [name=type]", "")
    page.keyboard.press("Tab")
    page.fill("form.filter [name=q]", "red box")
    assert set(changed_outcomes(page)) == {"1", "3"}


def test_dialogues_are_side_by_side(page, runs, comparison_page):
    output, names = runs
    page.goto((comparison_page.parent / "questions" / "1.html").as_uri())
    for index, letter in enumerate("ab"):
        lines = [
            line for line in RunData(output / names[index]).lines() if line["question_id"] == "1"
        ]
        replies = page.locator(f"[id^={letter}-turn].turn .reply").all_text_contents()
        assert replies == [line["reply"] for line in lines]
    tops = [page.locator(f"#{side}-turn-2").bounding_box() for side in "ab"]
    assert tops[0]["y"] == tops[1]["y"]
    assert tops[0]["x"] + tops[0]["width"] <= tops[1]["x"]
    ended_side = page.locator(".together").nth(2).locator(".side").nth(1)
    assert ended_side.locator(".ended").count() == 1
    assert [fact.inner_text() for fact in page.locator(".facts .mark").all()] == ["wrong", "right"]
    assert page.locator(".map image").count() == 2
    page.set_viewport_size({"width": 390, "height": 844})
    tops = [page.locator(f"#{side}-turn-2").bounding_box() for side in "ab"]
    assert tops[0]["x"] == tops[1]["x"]
    assert tops[0]["y"] + tops[0]["height"] <= tops[1]["y"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_cause_is_shown_for_the_wrong_run(page, tmp_path):
    runs = [
        run_rooms(tmp_path / model, id=("10", "14"), model=model).path
        for model in ("random", "oracle")
    ]
    result = run_cli("compare", *runs, "--page", tmp_path / "pages")
    assert result.exit_code == 0, result.output
    for name in ("10", "14"):
        page.goto((tmp_path / "pages" / "questions" / f"{name}.html").as_uri())
        sides = page.locator(".side:has(.facts)").all()
        assert [side.locator(".facts .mark").inner_text() for side in sides] == ["wrong", "right"]
        headlines = [side.locator(".verdict").all_inner_texts() for side in sides]
        assert [len(verdicts) for verdicts in headlines] == [1, 0]
        assert "with turns left" in headlines[0][0]
        assert page.locator(".verdict").count() == 1


def test_changed_questions_on_a_phone(page, comparison_page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(comparison_page.as_uri())
    for row in page.locator("#changed tbody tr").all():
        cells = row.locator("td[data-of]")
        assert [cell.get_attribute("data-of") for cell in cells.all()] == ["ground truth", "A", "B"]
        assert all(
            cell.bounding_box()["x"] + cell.bounding_box()["width"] <= 390 for cell in cells.all()
        )


def test_keyboard_navigation_follows_the_filter(page, comparison_page):
    page.emulate_media(reduced_motion="reduce")
    page.goto(comparison_page.as_uri() + "#outcome=lost")
    page.click("#changed a >> text=0")
    page.wait_for_url("**/0.html#outcome=lost")
    assert page.inner_text("#place") == "1 of 2 matching the filter"
    page.keyboard.press("2")
    assert page.evaluate("document.activeElement.id") == "a-turn-2"
    page.hover("#b-turn-1 h3")
    assert page.get_attribute(".wedge.lit", "data-for") == "b-turn-1"
    page.keyboard.press("n")
    page.wait_for_url("**/3.html#outcome=lost")
    page.keyboard.press("u")
    page.wait_for_url("**/index.html#*")
    assert set(changed_outcomes(page)) == {"0", "3"}


def test_all_links_resolve(comparison_page):
    pages = [comparison_page, *sorted((comparison_page.parent / "questions").iterdir())]
    assert len(pages) == 5
    targets = [assert_references_resolve(file) for file in pages]
    images = [value for _, name, value in targets[1].references if name == "src"]
    assert any("/views/" in value for value in images)


def test_pages_link_to_the_reports_of_the_runs(runs, comparison_page):
    output, names = runs
    assert "/report/" not in (comparison_page.parent / "questions" / "1.html").read_text()
    assert run_cli("report", names[1], "--output", output, "--no-diagnosis").exit_code == 0
    options = ("--output", output, "--no-diagnosis", "--page", comparison_page.parent)
    assert run_cli("compare", *names[:2], *options).exit_code == 0
    links = [
        value
        for page in (comparison_page, comparison_page.parent / "questions" / "1.html")
        for _, name, value in assert_references_resolve(page).references
        if name == "href" and f"{names[1]}/report/" in value
    ]
    assert [link.split("/report/")[1] for link in links] == ["index.html", "questions/1.html"]
    shutil.rmtree(output / names[1] / "report")


@WIDTHS_AND_SCHEMES
def test_accessibility(page, comparison_page, width, scheme):
    set_window(page, width, scheme)
    for file in (comparison_page, comparison_page.parent / "questions" / "1.html"):
        page.goto(file.as_uri())
        assert_accessible(page, width)
    page.goto(comparison_page.as_uri())
    right_edge = "parts => Math.max(...parts.map(part => part.getBoundingClientRect().right))"
    assert page.locator(".compared-runs, caption").evaluate_all(right_edge) <= width


def test_three_runs_are_compared_with_the_first(page, runs, tmp_path):
    output, names = runs
    result = run_cli("compare", *names, "--output", output, "--page", tmp_path / "three")
    assert result.exit_code == 0
    assert result.output.count("in one run only") == 2
    page.goto((tmp_path / "three" / "index.html").as_uri())
    assert changed_outcomes(page) == {
        "0": "at least 50 % in A, C",
        "1": "at least 50 % in B, C",
        "3": "at least 50 % in A, C",
        "4": "at least 50 % in B",
        "5": "at least 50 % in C",
    }
    head = page.locator(".scores thead th").all_inner_texts()
    assert [name for name in head if "−" in name] == ["B − A", "C − A"]
    comparison = json.loads(run_cli("compare", *names, "--output", output, "--json").stdout)
    pairs, (first, *rows) = comparison["comparisons"], comparison["runs"]
    assert [pair["b"] for pair in pairs] == [row["label"] for row in rows] == names[1:]
    assert (first["label"], "difference" in first) == (names[0], False)
    for pair, row in zip(pairs, rows, strict=True):
        expected = pair["differences"]["official_raw"]
        assert {name: row[name] for name in expected} == expected


def test_runs_that_are_not_comparable(page, runs, tmp_path):
    output, names = runs
    shortened = tmp_path / "short"
    shutil.copytree(output / names[1], shortened)
    lines = (shortened / "questions.jsonl").read_text().splitlines(keepends=True)
    (shortened / "questions.jsonl").write_text("".join(lines[:4]))
    turns = (shortened / "turns.jsonl").read_text().splitlines(keepends=True)
    kept_lines = [line for line in turns if json.loads(line)["question_id"] in "0123"]
    (shortened / "turns.jsonl").write_text("".join(kept_lines))
    refusal = run_cli("compare", names[0], shortened, "--output", output, "--page", tmp_path / "no")
    assert isinstance(refusal.exception, Exception)
    assert "not comparable" in str(refusal.exception)
    assert not (tmp_path / "no").exists()
    result = run_cli(
        "compare", names[0], shortened, "--output", output, "--anyway", "--page", tmp_path / "yes"
    )
    assert result.exit_code == 0
    page.goto((tmp_path / "yes" / "index.html").as_uri())
    assert "NOT COMPARABLE, B: 2 questions" in page.inner_text(".stamps")
    assert set(changed_outcomes(page)) == {"0", "1", "3"}


def test_compare_needs_two_runs(runs):
    output, names = runs
    refusal = run_cli("compare", names[0], "--output", output)
    assert "at least two runs" in str(refusal.exception)
