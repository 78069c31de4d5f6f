import shutil
from collections import namedtuple

import pytest
from factories.runs import make_config, make_questions

from render_agent.errors import SetupError
from render_agent.runs.build import build
from render_agent.runs.preflight import disk_needed, refuse_a_full_disk
from render_agent.runs.runner import start_run

Usage = namedtuple("Usage", "total used free")


def test_run_that_does_not_fit_on_disk_is_refused(tmp_path, monkeypatch):
    config = make_config(tmp_path, make_questions(tmp_path, 4))
    parts = build(config)
    needed = disk_needed(parts, parts.questions())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, needed - 1))
    with pytest.raises(SetupError, match="--output"):
        start_run(config)
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, needed))
    refuse_a_full_disk(parts, parts.questions())
