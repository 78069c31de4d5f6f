"""Pictures for training are made in processes that load nothing else of the model's."""

import subprocess
import sys

import pytest
from factories import TREE


@pytest.mark.slow
def test_a_process_of_its_own_resizes_a_picture():
    told = (
        "from PIL import Image; from training.picture_file import resized;"
        "print(resized(Image.new('RGB', (320, 240), (9, 8, 7)))[100, 100].tolist())"
    )
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", told],
        cwd=TREE,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == "[9, 8, 7]"
