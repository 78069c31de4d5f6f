"""The soak samples what a process holds, and the table of reliability says what was measured and what was not survived."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner
from factories import TREE

RESULTS = TREE / "benchmarks" / "results"


def benchmark(name):
    spec = importlib.util.spec_from_file_location(name, TREE / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for the annotations of their module
    spec.loader.exec_module(module)
    return module


soak, reliability = benchmark("soak"), benchmark("reliability")


@pytest.mark.slow
def test_a_soak_counts_every_turn_and_samples_every_pass(tmp_path):
    words = [
        "--turns",
        "25",
        "--limit",
        "2",
        "--image-size",
        "48x36",
        "--output",
        tmp_path / "soak",
    ]
    done = CliRunner().invoke(soak.main, [str(word) for word in words])
    assert not done.exception or isinstance(done.exception, SystemExit), done.output
    found = json.loads((tmp_path / "soak.json").read_text())
    assert found["turns"] >= 25 > found["samples"][-2]["turns"]
    assert found["passes"] == len(found["samples"]) >= 3
    for sample in found["samples"]:
        assert sample["megabytes"] > 50
        assert sample["threads"] >= 1
        assert 500 < sample["log_bytes_a_turn"] < 50_000
    assert (tmp_path / "soak.md").read_text() == soak.table(found)
    assert done.exit_code == (0 if all(row["flat"] for row in found["figures"].values()) else 1)


def test_what_is_held_is_noticed():
    before = soak.held()
    reading, writing = os.pipe()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        kept = os.urandom(40_000_000)
        now = soak.held()
        assert now["open_files"] == before["open_files"] + 3
        assert now["children"] == before["children"] + 1
        assert now["megabytes"] > before["megabytes"] + len(kept) / 2e6
        child.communicate(b"\n")
    for file in (reading, writing):
        os.close(file)


def made_samples(growth):
    """Samples of passes, in which memory grows by so many megabytes in 1,000 turns."""
    flat = {"open_files": 9, "threads": 3, "children": 0, "log_bytes_a_turn": 2000}
    return [
        {"turns": 800.0 * n, "megabytes": 300 + growth * 0.8 * n + (-1) ** n, **flat}
        for n in range(1, 41)
    ]


@pytest.mark.parametrize(("growth", "flat"), [(0.0, True), (0.5, True), (2.0, False)])
def test_a_leak_is_told_from_noise(growth, flat):
    rows = soak.judged(made_samples(growth))
    assert rows["megabytes"]["a_1000_turns"] == pytest.approx(growth, abs=0.02)
    assert rows["megabytes"]["flat"] is flat
    assert all(row["flat"] for name, row in rows.items() if name != "megabytes")


def test_few_passes_prove_nothing():
    assert not any(row["flat"] for row in soak.judged(made_samples(0.0)[:2]).values())


def made_record():
    """What was measured, by part, with one thing of each that was not survived."""
    lost = {"number": 7, "seed": 1, "what": "AssertionError: a turn | is gone"}
    kinds = {
        "kill -9 of a run": {
            "injected": 3,
            "survived": 2,
            "not_survived": [lost],
            "not_here": None,
        },
        "two mounts": {"injected": 0, "survived": 0, "not_survived": [], "not_here": "no root"},
    }
    figures = soak.judged(made_samples(2.0))
    tests = {"tests/a.py": {"passed": 4, "failed": 1, "skipped": 2}}
    found = {
        "faults": {"kinds": kinds},
        "tests": {"files": tests, "failed": ["tests/a.py: test_it"]},
        "soak": {"turns": 32_000, "seconds": 7200.0, "figures": figures},
    }
    about = {"command": "typed", "seconds": 1.0, "machine": "made", "date": "2026-01-01"}
    return {"parts": {name: about | {"found": one} for name, one in found.items()}}


def test_the_table_says_what_was_tried_and_names_what_was_not_survived():
    record = made_record()
    text = reliability.table(record)
    assert "| kill -9 of a run | 3 injected | 2 survived |" in text
    assert "| two mounts | 0 injected | not tried here: no root |" in text
    assert "| tests/a.py | 5 tests, 2 skipped | 4 passed |" in text
    assert "| megabytes | 32,000 turns, 2.00 hours | NOT flat: " in text
    _, _, lost = text.partition("## Not survived\n\n")
    grown = record["parts"]["soak"]["found"]["figures"]["megabytes"]["a_1000_turns"]
    assert [line.partition(":")[0] for line in lost.splitlines()] == [
        "- kill -9 of a run, seed 1, number 7",
        "- tests/a.py",
        f"- megabytes grows by {grown} in 1,000 turns of the soak",
    ]
    del record["parts"]["soak"]
    assert "## Soak\n\nNot measured yet.\n" in reliability.table(record)
    assert reliability.table({"parts": {}}).endswith("Nothing of the above.\n")


@pytest.mark.slow
def test_results_of_fuzzers_have_their_rows(tmp_path):
    output = tmp_path / "found.json"
    script = TREE / "tests" / "fuzz" / "fuzz_campaign.py"
    words = [sys.executable, script, "--target", "reply", "--inputs", "3", "--output", output]
    subprocess.run(words, check=True)
    found = reliability.read_json(output)
    (row, bounds), lost = reliability.tell_inputs(found)
    assert row[0] == "reply"
    assert row[1].startswith(f"{found['targets']['reply']['tried']} inputs in 0.0")
    assert "refused in a sentence" in row[2]
    assert bounds[2] == "0 failures"
    assert lost == []
    found["targets"]["reply"]["failures"] = [{"told": "a reply raised"}]
    assert reliability.tell_inputs(found)[1] == ["reply: a reply raised"]
    found["targets"]["reply"] |= {"failures": [], "mended": 3}
    (row, _), lost = reliability.tell_inputs(found)
    assert row[2].endswith("; 3 not at first, mended since and tried again")
    assert lost == []


@pytest.mark.slow
def test_a_part_is_measured_and_counted(tmp_path, monkeypatch):
    file = tmp_path / "test_made.py"
    file.write_text(
        "import pytest\ndef test_good(): pass\ndef test_bad(): assert 0\n"
        "@pytest.mark.skip\ndef test_not(): pass\n"
    )
    command = (
        f"{{python}} -m pytest -p no:cacheprovider --junitxml {{output}} -c {os.devnull} {file}"
    )
    made = reliability.Part("Made", command, reliability.read_tests, reliability.tell_tests)
    monkeypatch.setattr(reliability, "PARTS", {"tests": made})
    words = ["--output", str(tmp_path / "found")]
    done = CliRunner().invoke(reliability.main, words)
    assert done.exit_code == 1, done.output
    record = json.loads((tmp_path / "found.json").read_text())
    (row,) = record["parts"]["tests"]["found"]["files"].values()
    assert row == {"passed": 1, "failed": 1, "skipped": 1}
    assert record["parts"]["tests"]["exit_code"] == 1
    assert (tmp_path / "found.md").read_text() == reliability.table(record)


@pytest.mark.parametrize("name", reliability.PARTS)
def test_commands_of_the_parts_name_files_that_are_there(name):
    words = shlex.split(reliability.PARTS[name].command)
    files = [word for word in words if word.endswith(".py") or word.startswith("tests/")]
    assert files
    assert not [file for file in files if not (TREE / file).exists()]
    assert "{output}" in words


@pytest.mark.parametrize(("name", "module"), [("soak", soak), ("reliability", reliability)])
def test_the_figures_that_are_kept_are_those_of_their_json(name, module):
    if not (RESULTS / f"{name}.json").exists():
        pytest.skip("they were not measured yet")
    record = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    assert module.table(record) == (RESULTS / f"{name}.md").read_text("utf-8")
