"""The code on the documentation page about environments runs unchanged; other tests run that of other libraries."""

import re

from factories.documentation import blocks

import render_agent

OTHERS = re.compile("openenv|verifiers|GRPOTrainer")


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"render_agent": render_agent}
    own = [b for b in blocks("how-to/environments.md", "python") if not OTHERS.search(b)]
    assert len(own) == 6
    for block in own:
        exec(compile(block, "environments.md", "exec"), names)
    assert names["terminated"].shape == (8,)
    names["env"].close()
