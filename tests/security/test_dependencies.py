"""What the program is built on: pinned for the set-up's commands, listed with its licence, and audited."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from configparser import ConfigParser

import pytest
from factories import TREE
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    for name in ("audit", "hashes", "sbom", "set-up", "wheel"):
        script = TREE / "scripts" / name
        assert script.stat().st_mode & 0o111
        subprocess.run(["bash", "-n", str(script)], check=True)


def script(name):
    """Return a script of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(name, TREE / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_pin_but_torch_has_hashes_and_the_extras_that_need_it():
    text = (TREE / "hashes.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    form = re.compile(r"(\S+)==(\S+)(?: --hash=sha256:[0-9a-f]{64})+  #((?: [a-z]+)*) ?")
    known = {canonicalize_name(m[1]): m[2] for m in map(form.fullmatch, lines)}
    wanted = {
        canonicalize_name(name): version for name, version in pins() if not name.startswith("torch")
    }
    assert known.items() >= wanted.items()
    taken = "".join(script("write_hashes").chosen(text, ["report"]))
    assert "\nnumba==" in taken
    assert "matplotlib==" in taken
    assert not {"pytest==", "ray==", "mypy=="} & {
        f"{line.partition('==')[0]}==" for line in taken.splitlines()
    }
    every = "".join(script("write_hashes").chosen(text, ["test", "lint", "docs"]))
    assert {"pytest", "ray", "mypy"} <= {line.partition("==")[0] for line in every.splitlines()}


ADVISORY = {
    "id": "PYSEC-1",
    "aliases": ["CVE-1"],
    "summary": "it reads too far",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Foo_Bar"},
            "ranges": [
                {
                    "type": "ECOSYSTEM",
                    "events": [{"introduced": "1.2"}, {"fixed": "1.4"}, {"introduced": "2.0rc1"}],
                }
            ],
            "versions": ["0.9"],
        }
    ],
}


@pytest.mark.parametrize(
    ("version", "has"),
    [("0.9", True), ("1.0", False), ("1.2", True), ("1.3.9", True), ("1.4", False), ("2.0", True)],
)
def test_a_copy_of_the_advisories_is_asked_without_a_network(tmp_path, capsys, version, has):
    audit = script("audit_copy")
    (tmp_path / "pins.txt").write_text(f"# a comment\nfoo.bar=={version}\nother==1.3\n")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("PYSEC-1.json", json.dumps(ADVISORY))
        archive.writestr(
            "PYSEC-2.json", json.dumps(ADVISORY | {"withdrawn": "2026-01-01T00:00:00Z"})
        )
    assert audit.main(tmp_path / "all.zip", [tmp_path / "pins.txt"]) == has
    told = capsys.readouterr().out
    assert told == (f"foo-bar {version}: PYSEC-1, CVE-1: it reads too far\n" if has else "")
    (tmp_path / "empty").mkdir()
    assert audit.main(tmp_path / "empty", [tmp_path / "pins.txt"]) == 1
    with pytest.raises(SystemExit, match=r"cannot read .*none\.zip.*fetch OSV"):
        audit.main(tmp_path / "none.zip", [tmp_path / "pins.txt"])


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
