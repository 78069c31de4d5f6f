"""The documentation site builds in strict mode, and its pages load nothing from the network."""

import os
import subprocess
import sys

import pytest
from factories.documentation import DOCS, TREE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it."""
    pytest.importorskip("mkdocstrings", reason="the docs extra is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(
        command, cwd=TREE, env=quiet, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    return folder


def test_pages_load_nothing_from_the_network(site, browser):
    page, urls, faults = browser.new_page(), [], []
    page.on("request", lambda request: urls.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    for path in pages:
        page.goto(path.as_uri())
    assert not [url for url in urls if not url.startswith(("file:", "data:", "about:"))]
    assert not faults
