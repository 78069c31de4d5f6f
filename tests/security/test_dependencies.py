"""Installed packages are pinned, and wheels are reproducible."""

import os
import re
import subprocess
import sys
from configparser import ConfigParser

import pytest
from factories import TREE
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Extras installed by `make run`, `make test` and `make lint`.
SET_UP = ("test", "lint", "docs")


def required_packages():
    """Return the requirements of the package and of the extras in `SET_UP`."""
    read = ConfigParser()
    read.read(TREE / "setup.cfg", "utf-8")
    parts = read["options.extras_require"]
    texts = [read["options"]["install_requires"], *(parts[name] for name in SET_UP)]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_required_package_has_one_matching_pin():
    names = ("constraints.txt", "constraints-cpu.txt")
    lines = [line for name in names for line in (TREE / name).read_text("utf-8").splitlines()]
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    pinned = {canonicalize_name(name): version for name, version in pins}
    assert len(pinned) == len(pins) > 100
    for requirement in required_packages():
        if requirement.marker is None or requirement.marker.evaluate():
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), (
                requirement
            )
    assert all(re.fullmatch(r"[0-9][0-9A-Za-z.]*", version) for version in pinned.values())


@pytest.mark.slow  # builds the wheel twice
def test_wheel_is_reproducible(tmp_path):
    if not (TREE / ".git").exists():
        pytest.skip("not a git checkout: wheels are built from a commit")
    digests = []
    for umask in ("022", "077"):
        result = subprocess.run(
            ["bash", "-c", f"umask {umask}; scripts/wheel"],
            cwd=TREE,
            env=os.environ | {"PYTHON": sys.executable, "DIST": str(tmp_path / umask)},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode and "setuptools" in result.stderr:
            pytest.skip("the wheel builder cannot be downloaded without a network")
        assert result.returncode == 0, result.stderr
        digests.append(result.stdout.split()[0])
    assert digests[0] == digests[1]
