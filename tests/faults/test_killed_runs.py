"""A run that is killed with -9, anywhere, continues to the transcripts of an undisturbed one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import outcome, transcripts

from render_agent.run_log.folder import RunFolder


def kill_loop(folder, mode, count, seed):
    script = Path(__file__).with_name("kill_loop.py")
    command = [sys.executable, script, folder, mode, str(count), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("mode", "count"), [("lines", None), ("moments", 50)])
def test_killed_and_continued_equals_undisturbed(tmp_path, mode, count):
    lines = sum(number % 4 + 2 for number in range(5))
    found = kill_loop(tmp_path, mode, count or lines, seed=7)
    whole = Path(found["whole"])
    assert len(RunFolder(whole).lines()) == lines
    assert len(found["killed"]) == (count or lines)
    for runs in found["killed"]:
        (path,) = map(Path, runs)
        assert transcripts(path) == transcripts(whole)
        assert outcome(path) == outcome(whole)
        numbers = [(line["question_id"], line["turn"]) for line in RunFolder(path).lines()]
        assert len(numbers) == len(set(numbers)) == lines
        for turns in transcripts(path).values():
            for view in (view for turn in turns for view in turn["views"]):
                assert (path / view["file"]).read_bytes() == (whole / view["file"]).read_bytes()
