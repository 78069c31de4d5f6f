"""Notebook display: self-contained, balanced, escaped HTML with small images."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from factories.runs import STEP, in_rooms, make_questions, play, walking
from PIL import Image

import render_agent
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.score.tables import describe_cost, overall_lines

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


def parsed(html):
    """Return the tags of HTML, which must be balanced."""
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser.seen


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown")
    questions = make_questions(folder, 2)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[0]["question"] = HOSTILE
    rows[1]["options"] = [f"A. {HOSTILE}", "B. right"]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = json.dumps({"reasoning": HOSTILE, "answer": HOSTILE, "forward_meters": 0.3})
    replies = ReplayPolicy({"*": [said, f"no JSON {HOSTILE}", STEP]})
    path, _ = play(folder, questions, ScriptedEngine(replies), max_turns=3)
    return render_agent.load_run(path)


def shown_in(page, tmp_path, html):
    file = tmp_path / "shown.html"
    file.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>shown</title>{html}</html>',
        "utf-8",
    )
    page.goto(file.as_uri())
    return page


@pytest.mark.parametrize("number", [0, 1])
def test_dialogue_display_escapes_hostile_text(page, tmp_path, run, number):
    dialogue = run.dialogue(number)
    assert repr(dialogue).endswith(f", {len(dialogue)} turns>")
    html = dialogue._repr_html_()
    tags = parsed(html)
    assert not {"script", "link", "iframe"} & {tag for tag, _ in tags}
    assert not [name for _, given in tags for name in given if name.startswith("on")]
    shown_in(page, tmp_path, html)
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
    inside = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', dialogue._repr_html_())
    shown = [
        dialogue.map(),
        *(dialogue.views[shown.number] for turn in dialogue.turns for shown in turn.views),
    ]
    assert len(inside) == len(shown)
    for data, image in zip(inside, shown, strict=True):
        small = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"), int)
        assert small.shape[0] <= 320
        assert small.shape[1] <= 320
        assert np.abs(small - image.pixels).mean() < 6
    big = render_agent.open_scene(render_agent.bundled_rooms()["room00"]).view()
    assert Image.open(io.BytesIO(base64.b64decode(big.thumbnail().partition(",")[2]))).size == (
        320,
        240,
    )


def test_run_display_shows_labelled_scores(page, tmp_path, run):
    html = run._repr_html_()
    parsed(html)
    shown_in(page, tmp_path, html)
    text = page.inner_text("body")
    for name, result in run.results["types"].items():
        row = page.locator("tr", has_text=name).inner_text()
        assert row.split() == [name, str(result["n"]), f"{result['score']:.1f}"]
    for stamp in run.stamps:
        assert stamp in text
    assert describe_cost(run.results["totals"]["per_question"]) in text
    means = overall_lines(run.results)
    assert page.locator("th[scope=row]").count() == len(run.results["types"]) + len(means)
    assert all(line.label in text for line in means)


def test_intervals_are_shown_with_enough_scenes(tmp_path):
    questions = in_rooms(make_questions(tmp_path, 6), 6)
    runs = [play(tmp_path, questions, walking(6, turns), max_turns=4)[0] for turns in (1, 2)]
    one, other = map(render_agent.load_run, runs)
    low, high = one.results["intervals"]["micro"]
    assert f"<td>{low:.1f} … {high:.1f}</td>" in one._repr_html_()
    compared = one.compare(other)
    low, high = compared.found["differences"]["micro"]["interval"]
    assert f"<td>{low:.1f} … {high:.1f}</td>" in compared._repr_html_()


def test_comparison_display_shows_differences(page, tmp_path, run):
    compared = run.compare(run)
    html = compared._repr_html_()
    parsed(html)
    shown_in(page, tmp_path, html)
    assert compared.found["verdict"] in page.inner_text("body")
    assert "same options" in page.inner_text("body")
    row = page.locator("tr", has_text="micro").locator("td").all_inner_texts()
    assert row[:3] == [f"{run.results['micro']:.1f}", f"{run.results['micro']:.1f}", "0.0"]


def test_scene_display_shows_the_map():
    room = render_agent.open_scene(render_agent.bundled_rooms()["room00"], size=(320, 240))
    assert room._repr_png_() == room.map().png()


def test_ipython_displays_images_and_html(run):
    formatters = pytest.importorskip("IPython.core.formatters")
    shown = formatters.DisplayFormatter()
    view = run.dialogue(0).views[0]
    data, _ = shown.format(view)
    assert data["image/png"] == view.png()
    assert data["text/plain"] == repr(view)
    for entry in (run, run.dialogue(0), run.compare(run)):
        data, _ = shown.format(entry)
        assert data["text/html"] == entry._repr_html_()
        assert data["text/plain"] == repr(entry)
