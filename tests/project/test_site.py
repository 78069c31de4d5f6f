"""The site of docs/ is built strictly, asks nothing of the network, and can be searched from disk."""

import importlib.util
import os
import subprocess
import sys

import pytest
from factories.documentation import DOCS, TREE
from factories.pages import assert_nothing_serious, seen_at
from mkdocs.exceptions import PluginError
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", TREE / "scripts" / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "loaded",
    [
        '<script src="https://cdn.example/a.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css?family=A">',
        '<link rel="preconnect" href="https://fonts.example" crossorigin>',
        '<img src="HTTP://pictures.example/a.png" alt="">',
        '<iframe src="https://player.example/"></iframe>',
    ],
)
def test_a_page_that_loads_from_outside_is_found(hooks, tmp_path, loaded):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.html").write_text(f"<html><body>{loaded}</body></html>")
    assert len(hooks.requests_to_outside(tmp_path)) == 1


def test_a_style_that_loads_from_outside_is_found(hooks, tmp_path):
    (tmp_path / "a.css").write_text(
        '@import "https://fonts.example/a.css"; a{background:url(//b.example/b)}'
    )
    assert len(hooks.requests_to_outside(tmp_path)) == 2


def test_links_and_what_the_site_has_are_no_requests(hooks, tmp_path):
    page = '<link rel="canonical" href="https://a.example/"><a href="https://b.example/">b</a>'
    (tmp_path / "a.html").write_text(page + '<img src="a.png"><script src="../a.js"></script>')
    (tmp_path / "a.css").write_text(
        "a{background:url(data:image/png;base64,AAAA)} b{src:url(b.woff)}"
    )
    assert hooks.requests_to_outside(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[scores](../explanation/scores.md#x)", "[scores](../explanation/scores.md#x)"),
        ("[changes](../../CHANGELOG.md)", "[changes](../repository/CHANGELOG.md)"),
        ("[rooms](../../scenes/README.md)", "[rooms](../repository/scenes.md)"),
        ("[errors.py](../../render_agent/errors.py)", "errors.py"),
        ("[`QuestionState`](../../setup.cfg)", "`QuestionState`"),
        ("[Inspect](https://inspect.aisi.org.uk)", "[Inspect](https://inspect.aisi.org.uk)"),
        ("![a plan](../top.png)", "![a plan](../top.png)"),
        ("```\n[a](../../setup.cfg)\n```", "```\n[a](../../setup.cfg)\n```"),
    ],
)
def test_links_lead_to_where_the_site_has_their_documents(hooks, text, expected):
    assert hooks.relinked(text, DOCS / "how-to" / "python.md", "how-to/python.md") == expected


def test_bars_in_the_code_of_a_table_are_bars(hooks):
    text = "`a\\|b`\n\n| option | x |\n|---|---|\n| `--a x\\|y` | p \\| q |\n"
    assert hooks.unescaped(text) == text.replace("x\\|y", "x|y")


def test_a_link_to_nothing_stops_the_build(hooks):
    with pytest.raises(PluginError, match=r"python\.md links to \.\./nothing\.md"):
        hooks.relinked("[a](../nothing.md)", DOCS / "how-to" / "python.md", "how-to/python.md")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=TREE, env=quiet, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return folder


@pytest.mark.slow
def test_no_page_asks_the_network(site, browser):
    page, asked, faults = browser.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    pages = sorted(site.rglob("*.html"))
    assert "404.html" not in {page.name for page in pages}
    assert len(pages) > 40
    for path in pages:
        page.goto(path.as_uri())
    assert not [url for url in asked if not url.startswith(("file:", "data:", "about:"))]
    assert not faults


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_site_is_good_for_everybody(site, browser, width, scheme):
    page = browser.new_page()
    seen_at(page, width, scheme)
    for name in ("index", "extending/add-a-benchmark", "explanation/scores", "reference/options"):
        page.goto((site / f"{name}.html").as_uri())
        if page.locator("pre").count():
            expect(page.locator(".md-code__nav").first).to_be_attached()
        assert_nothing_serious(page, width)


@pytest.mark.slow
def test_the_site_is_searched_from_disk(site, browser):
    page = browser.new_page()
    page.goto((site / "how-to" / "judge.html").as_uri())
    page.click(".md-search__input")
    page.keyboard.type("McNemar")
    found = page.locator(".md-search-result__link").first
    found.wait_for(state="visible")
    page.goto(found.get_attribute("href"))
    assert "McNemar" in page.locator("article").inner_text()
