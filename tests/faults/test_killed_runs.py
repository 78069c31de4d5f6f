"""A run that is killed with -9, anywhere, continues to the transcripts of an undisturbed one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_runs import outcome, transcripts

from render_agent.run_log.folder import RunFolder


def kill_loop(folder, mode, kills, seed):
    script = Path(__file__).with_name("kill_loop.py")
    command = [sys.executable, script, folder, mode, str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


LINES = sum(number % 4 + 2 for number in range(5))


@pytest.mark.parametrize(("mode", "kills"), [("lines", LINES), ("moments", 50)])
def test_killed_and_continued_equals_undisturbed(tmp_path, mode, kills):
    found = kill_loop(tmp_path, mode, kills, seed=7)
    whole = Path(found["whole"])
    assert len(RunFolder(whole).lines()) == LINES
    assert found["killed"]
    for runs in found["killed"]:
        (path,) = map(Path, runs)
        assert transcripts(path) == transcripts(whole)
        assert outcome(path) == outcome(whole)
        numbers = [(line["question_id"], line["turn"]) for line in RunFolder(path).lines()]
        assert len(numbers) == len(set(numbers)) == LINES
        for turns in transcripts(path).values():
            for view in (view for turn in turns for view in turn["views"]):
                assert (path / view["file"]).read_bytes() == (whole / view["file"]).read_bytes()
