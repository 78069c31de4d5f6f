"""Every package that the set-up installs is pinned, and a wheel can be built again byte by byte."""

import os
import re
import subprocess
import sys
from configparser import ConfigParser

import pytest
from factories import TREE
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SET_UP = ("test", "lint", "docs")
"""The extras that `make run`, `make test` and `make lint` install."""


def asked_for():
    """Return the requirements of the package and of `SET_UP`."""
    read = ConfigParser()
    read.read(TREE / "setup.cfg", "utf-8")
    parts = read["options.extras_require"]
    texts = [read["options"]["install_requires"], *(parts[name] for name in SET_UP)]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_package_of_the_set_up_has_one_pin_that_fits():
    names = ("constraints.txt", "constraints-cpu.txt")
    lines = [line for name in names for line in (TREE / name).read_text("utf-8").splitlines()]
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    pinned = {canonicalize_name(name): version for name, version in pins}
    assert len(pinned) == len(pins) > 100
    for one in asked_for():
        if one.marker is None or one.marker.evaluate():
            assert one.specifier.contains(pinned[canonicalize_name(one.name)]), one
    assert all(re.fullmatch(r"[0-9][0-9A-Za-z.]*", version) for version in pinned.values())


@pytest.mark.slow  # pip builds it twice
def test_a_wheel_has_the_same_bytes_wherever_and_whenever_it_is_built(tmp_path):
    if not (TREE / ".git").exists():
        pytest.skip("no checkout: the wheel is built from a commit")
    told = []
    for umask in ("022", "077"):
        done = subprocess.run(
            ["bash", "-c", f"umask {umask}; scripts/wheel"],
            cwd=TREE,
            env=os.environ | {"PYTHON": sys.executable, "DIST": str(tmp_path / umask)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and "setuptools" in done.stderr:
            pytest.skip("the tool that builds a wheel cannot be fetched without a network")
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.split()[0])
    assert told[0] == told[1]
