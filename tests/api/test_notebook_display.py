"""Notebook display: self-contained, balanced, escaped HTML with small images."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from factories.runs import STEP, make_questions, play, spread_over_rooms, walking_engine
from PIL import Image

import render_agent
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.score.tables import describe_cost, overall_lines, type_lines

HOSTILE = """</p><script>window.stolen = true</script><img src=x onerror="stolen=1"> & "q" 'a' {{ 7*7 }}"""
VOID = {"img", "br", "meta", "link", "input", "hr"}


class Balanced(HTMLParser):
    """Checks that tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parse_tags(html):
    """Return the tags of HTML, which must be balanced."""
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser.seen


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    questions = make_questions(folder, 2)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[0]["question"] = HOSTILE
    rows[1]["options"] = [f"A. {HOSTILE}", "B. right"]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hostile = json.dumps({"reasoning": HOSTILE, "answer": HOSTILE, "forward_meters": 0.3})
    replies = ReplayPolicy({"*": [hostile, f"no JSON {HOSTILE}", STEP]})
    path, _ = play(folder, questions, ScriptedEngine(replies), max_turns=3)
    return render_agent.load_run(path)


def open_html(page, tmp_path, html):
    """Open a complete HTML page around `html` in the browser."""
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>display</title>'
    file = tmp_path / "display.html"
    file.write_text(f"{head}{html}</html>", "utf-8")
    page.goto(file.as_uri())


@pytest.mark.parametrize("number", [0, 1])
def test_dialogue_display_escapes_hostile_text(page, tmp_path, run, number):
    dialogue = run.dialogue(number)
    assert repr(dialogue).endswith(f", {len(dialogue)} turns>")
    html = dialogue._repr_html_()
    tags = parse_tags(html)
    assert not {"script", "link", "iframe"} & {tag for tag, _ in tags}
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    open_html(page, tmp_path, html)
    assert page.evaluate("window.stolen === undefined")
    text = page.inner_text("body")
    assert HOSTILE in text
    assert f"no JSON {HOSTILE}" in page.locator("pre").nth(1).text_content()
    for turn in dialogue.turns:
        assert f"turn {turn.number}" in text
        assert turn.feedback in text
    images = page.locator("img")
    assert images.count() == 1 + sum(len(turn.views) for turn in dialogue.turns)
    assert images.evaluate_all(
        "images => images.every(image => image.complete && image.naturalWidth > 0)"
    )
    assert images.evaluate_all("images => images.every(image => image.alt.length > 3)")


def test_embedded_images_are_small_copies_of_the_views(run):
    dialogue = run.dialogue(0)
    embedded = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', dialogue._repr_html_())
    views = [dialogue.views[view.number] for turn in dialogue.turns for view in turn.views]
    for data, image in zip(embedded, [dialogue.map(), *views], strict=True):
        small = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"), int)
        assert small.shape[0] <= 320
        assert small.shape[1] <= 320
        assert np.abs(small - image.pixels).mean() < 6
    large = render_agent.open_scene(render_agent.bundled_rooms()["room00"]).view()
    data = base64.b64decode(large.thumbnail().partition(",")[2])
    assert Image.open(io.BytesIO(data)).size == (320, 240)


def test_run_display_shows_labelled_scores(page, tmp_path, run):
    html = run._repr_html_()
    parse_tags(html)
    open_html(page, tmp_path, html)
    text = page.inner_text("body")
    types = type_lines(run.results)
    for line in types:
        row = page.locator("tbody tr").nth(types.index(line)).inner_text()
        assert row.split("\t") == [line.label, str(line.number), f"{line.score:.1f}", line.interval]
    for stamp in run.stamps:
        assert stamp in text
    assert describe_cost(run.results["totals"]["per_question"]) in text
    means = overall_lines(run.results)
    assert page.locator("th[scope=row]").count() == len(types) + len(means)
    assert all(line.label in text for line in means)


def test_intervals_are_shown_with_enough_scenes(tmp_path):
    questions = spread_over_rooms(make_questions(tmp_path, 6), 6)
    runs = [play(tmp_path, questions, walking_engine(6, turns), max_turns=4)[0] for turns in (1, 2)]
    first, second = map(render_agent.load_run, runs)
    low, high = first.results["intervals"]["micro"]
    assert f"<td>{low:.1f} … {high:.1f}</td>" in first._repr_html_()
    comparison = first.compare(second)
    low, high = comparison.found["differences"]["official_raw"]["interval"]
    assert f"<td>{low:.1f} … {high:.1f}</td>" in comparison._repr_html_()


def test_comparison_display_shows_differences(page, tmp_path, run):
    comparison = run.compare(run)
    html = comparison._repr_html_()
    parse_tags(html)
    open_html(page, tmp_path, html)
    assert comparison.found["verdict"] in page.inner_text("body")
    assert "same options" in page.inner_text("body")
    row = page.locator("tr", has_text="VSI-Bench score").locator("td").all_inner_texts()
    score = f"{run.results['official_raw']:.1f}"
    assert row[:3] == [score, score, "0.0"]


def test_scene_display_shows_the_map():
    room = render_agent.open_scene(render_agent.bundled_rooms()["room00"], size=(320, 240))
    assert room._repr_png_() == room.map().png()


def test_ipython_displays_images_and_html(run):
    formatters = pytest.importorskip("IPython.core.formatters")
    formatter = formatters.DisplayFormatter()
    view = run.dialogue(0).views[0]
    data, _ = formatter.format(view)
    assert data["image/png"] == view.png()
    assert data["text/plain"] == repr(view)
    for entry in (run, run.dialogue(0), run.compare(run)):
        data, _ = formatter.format(entry)
        assert data["text/html"] == entry._repr_html_()
        assert data["text/plain"] == repr(entry)
