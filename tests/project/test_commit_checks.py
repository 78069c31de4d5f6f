"""What is checked before a commit: hooks that need no network, and files that are small and whole."""

import importlib.util

import pytest
import yaml
from factories.documentation import TREE


@pytest.fixture(scope="module")
def check_files():
    spec = importlib.util.spec_from_file_location("check_files", TREE / "scripts/check_files.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_hook_is_local_and_runs_what_is_there():
    config = yaml.safe_load((TREE / ".pre-commit-config.yaml").read_text("utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    for hook in config["repos"][0]["hooks"]:
        program, *words = hook["entry"].split()
        assert program.startswith(".venv/bin/")
        assert all((TREE / word).is_file() for word in words if word.endswith(".py"))


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("a.py", b"x = 1\n", None),
        ("a.py", b"x = 1", "must end with one newline"),
        ("a.py", b"x = 1\n\n", "must end with one newline"),
        ("a.yaml", b"a: [1\n", "is not YAML"),
        ("a.yaml", b"a: [1]\n", None),
        ("a.png", b"\x89PNG\0\0", None),
        ("a.bin", bytes(1_000_001), "has 1,000,001 bytes"),
        ("empty.py", b"", None),
    ],
)
def test_faults_of_a_file_are_found(check_files, tmp_path, name, data, fault):
    (tmp_path / name).write_bytes(data)
    found = list(check_files.faults(tmp_path / name))
    assert [words.startswith(fault or "?") for words in found] == ([True] if fault else [])
