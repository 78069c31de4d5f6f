"""Data files in wheels and source archives: rooms, model, templates."""

import json
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from factories import TREE
from factories.models import BUNDLED, TRAINED

# Asks setuptools which files a wheel and a source archive would contain, without building them.
LIST = """\
import json, sys
from setuptools import Distribution
distribution = Distribution({"script_name": "setup.py"})
distribution.parse_config_files()
distribution.announce = lambda *_, **__: None
build = distribution.get_command_obj("build_py")
build.ensure_finalized()
wheel = [f"{folder}/{file}" for _, folder, _, files in build.data_files for file in files]
archive = distribution.get_command_obj("egg_info")
archive.egg_base = sys.argv[1]
archive.ensure_finalized()
archive.run()
json.dump([wheel, archive.filelist.files], open(sys.argv[1] + "/files.json", "w"))
"""


@pytest.fixture(scope="module")
def packaged_files(tmp_path_factory):
    """The data files of a wheel, and all files of a source archive, as paths in the tree."""
    folder = tmp_path_factory.mktemp("packed")
    command = [sys.executable, "-W", "ignore", "-c", LIST, str(folder)]
    subprocess.run(command, cwd=TREE, capture_output=True, check=True)
    return [set(files) for files in json.loads((folder / "files.json").read_text("utf-8"))]


def test_type_checkers_find_the_installed_package(tmp_path):
    """They search the folders of sys.path, and run no import hooks."""
    finds = "import importlib.machinery as m; print(m.PathFinder.find_spec('render_agent').origin)"
    command = [sys.executable, "-P", "-c", finds]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()) == TREE / "render_agent" / "__init__.py"


def files_in(folder):
    """Return the files in a folder of the package, as paths in the tree."""
    return {
        f"{folder.relative_to(TREE)}/{file.relative_to(folder)}"
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_bundled_rooms_are_packaged(packaged_files):
    rooms = files_in(TREE / "render_agent" / "bundled")
    assert len(rooms) >= 18
    for files in packaged_files:
        assert rooms <= files


@pytest.mark.skipif(not TRAINED, reason="the bundled model is missing")
def test_bundled_model_is_packaged(packaged_files):
    model = files_in(BUNDLED)
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= {
        Path(file).name for file in model
    }
    for files in packaged_files:
        assert model <= files


def test_model_folder_is_declared_for_wheel_and_archive():
    settings = ConfigParser()
    settings.read(TREE / "setup.cfg")
    patterns = settings["options.package_data"]["render_agent"].split()
    assert "engines/bundled_models/small/*" in patterns
    manifest = (TREE / "MANIFEST.in").read_text("utf-8")
    assert "recursive-include render_agent/engines/bundled_models/small *" in manifest.splitlines()
