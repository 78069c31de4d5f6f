"""The code on the documentation page about environments runs unchanged, except for that of other libraries."""

import re

from factories.documentation import blocks

import render_agent

OTHERS = re.compile("openenv|verifiers|GRPOTrainer")


def test_docs_page_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"render_agent": render_agent}
    examples = [b for b in blocks("how-to/environments.md", "python") if not OTHERS.search(b)]
    assert len(examples) == 8
    for block in examples:
        exec(compile(block, "environments.md", "exec"), names)
    assert names["rewards"].shape == (8,)
    names["env"].close()
