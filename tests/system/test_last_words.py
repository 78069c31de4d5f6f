"""A process that ends in native code says nothing; somebody else does."""

import subprocess
import sys

import pytest

ENDS = """
import os, signal, sys
from pathlib import Path
from render_agent.system.last_words import last_words
try:
    with last_words("error: it was ended", Path(sys.argv[2])):
        exec(sys.argv[1])
except ValueError:
    pass
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("os._exit(1)", "error: it was ended\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "error: it was ended\n"),
        ("pass", ""),
        ("raise ValueError", ""),
    ],
)
def test_only_who_ends_without_a_word_is_spoken_for(how, said, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ENDS, how, str(scratch)], capture_output=True, text=True, check=False
    )
    assert done.stderr == said
    assert scratch.exists() == (not said)
