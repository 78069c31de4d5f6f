"""What the program is built on: pinned for the set-up's commands, listed with its licence, and audited."""

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TREE = Path(__file__).parents[2]

PINS = ("constraints.txt", "constraints-cpu.txt")

SET_UP = ("test", "lint")
"""The extras that `make run`, `make test` and `make lint` install."""


def asked_for(*extras):
    """Return what setup.cfg asks for, the program's own and that of some extras; all of them unless named."""
    read = ConfigParser()
    read.read(TREE / "setup.cfg", "utf-8")
    parts = read["options.extras_require"]
    texts = [read["options"]["install_requires"], *(parts[name] for name in extras or parts)]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def pins():
    lines = [line for name in PINS for line in (TREE / name).read_text("utf-8").splitlines()]
    return [line.split("==") for line in lines if line and not line.startswith("#")]


def test_every_package_of_the_set_up_has_one_pin_that_fits():
    pinned = {canonicalize_name(name): version for name, version in pins()}
    assert len(pinned) == len(pins()) > 100
    asked = [one for one in asked_for(*SET_UP) if one.marker is None or one.marker.evaluate()]
    assert len(asked) > 30
    for one in asked:
        assert one.specifier.contains(pinned[canonicalize_name(one.name)]), one
    assert all(re.fullmatch(r"[0-9][0-9A-Za-z.]*", version) for version in pinned.values())


def test_the_set_up_keeps_to_the_pins():
    script = (TREE / "scripts" / "set-up").read_text("utf-8")
    makefile = (TREE / "Makefile").read_text("utf-8")
    for name in PINS:
        assert f"options+=(-c {name})" in script
        assert name in re.search(r"^PIP_FILES := (.*)$", makefile, re.MULTILINE)[1].split()
        assert f"-r {name}" in (TREE / "scripts" / "audit").read_text("utf-8")
    assert re.search(r"^audit:.*\n\t@scripts/audit$", makefile, re.MULTILINE)


def listed():
    """Return the rows of the first table of the list of licences: name, for, asked for, version, licence."""
    page = (TREE / "docs" / "licences.md").read_text("utf-8")
    first, second = page.split("\n## ")[1:]
    rows = [line.strip("| ").split(" | ") for line in first.splitlines() if line.startswith("| ")]
    more = [line.strip("| ").split(" | ") for line in second.splitlines() if line.startswith("| ")]
    return rows[1:], more[1:]


def test_the_list_of_licences_has_every_package_that_is_asked_for():
    rows, more = listed()
    asked = asked_for()
    assert {row[0] for row in rows} == {canonicalize_name(one.name) for one in asked}
    ranges = {row[0]: row[2] for row in rows}
    for one in asked:
        assert (str(one.specifier) or "any") in ranges[canonicalize_name(one.name)], one
    assert all(re.search("[A-Za-z]{3}", row[-1]) for row in (*rows, *more))
    assert not [row for row in (*rows, *more) if row[-1] == "not said"]


def test_the_list_is_of_the_versions_that_are_pinned():
    pinned = {canonicalize_name(name): version for name, version in pins()}
    rows, more = listed()
    versions = {row[0]: row[-2] for row in (*rows, *more) if row[-2] != "–"}
    versions.pop("setuptools", None)  # which pip itself never lists
    assert len(versions) > 100
    assert {name: pinned.get(name) for name in versions} == versions


def test_one_command_writes_the_list():
    pytest.importorskip("mypy", reason="the packages of the lint extra are not installed")
    sys.path.insert(0, str(TREE / "scripts"))
    try:
        import licences
    finally:
        sys.path.pop(0)
    page = licences.page()
    names = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
    kept = (TREE / "docs" / "licences.md").read_text("utf-8")
    direct = {row[0] for row in listed()[0]}
    assert {name.strip("| ") for name in names} >= direct
    assert page.split("\n| ")[0] == kept.split("\n| ")[0]


def test_the_scripts_are_sound():
    for name in ("audit", "set-up"):
        script = TREE / "scripts" / name
        assert script.stat().st_mode & 0o111
        subprocess.run(["bash", "-n", str(script)], check=True)
