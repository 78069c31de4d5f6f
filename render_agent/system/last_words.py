"""Print a sentence for a process that dies without a word; run as a program, this module waits and prints it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def last_words(sentence: str, scratch: Path) -> Iterator[None]:
    """Print a sentence on standard error if this process dies within the block without a word.

    scratch: a folder that is removed then.
    For libraries that end their process in native code, which no handler hears of, and for kill -9.
    """
    # As a file, not a module: the package itself is not needed. Its own session: Ctrl-C is not for it.
    speaker = subprocess.Popen(
        [sys.executable, "-P", __file__, sentence, str(scratch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        if speaker.stdin is not None:
            with suppress(OSError), speaker.stdin:
                speaker.stdin.write(b".")
        speaker.wait()


def wait_and_say(sentence: str, scratch: Path) -> None:
    """Wait until the one who may say it is gone, and say it where that one gave no sign that all is well."""
    if not sys.stdin.buffer.read():
        shutil.rmtree(scratch, ignore_errors=True)
        with suppress(OSError):
            sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    wait_and_say(sys.argv[1], Path(sys.argv[2]))
