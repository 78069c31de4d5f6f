"""The code on the documentation page about environments runs unchanged."""

from factories.documentation import blocks

import render_agent


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"render_agent": render_agent}
    for block in blocks("how-to/environments.md", "python"):
        exec(compile(block, "environments.md", "exec"), names)
    assert names["terminated"].shape == (8,)
    names["env"].close()
