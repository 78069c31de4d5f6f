"""Faults in real processes, by the table of the campaign: few of them each time, all of them where there is time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from campaign import KINDS

SCRIPT = Path(__file__).with_name("campaign.py")

QUICK = ("disk full (ENOSPC)",)


def campaign(output, *words):
    """Run the campaign; return its exit code, what it found, and what it said."""
    line = [sys.executable, str(SCRIPT), "--output", str(output), *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    found = json.loads(output.read_text()) if output.exists() else None
    return done.returncode, found, done.stdout + done.stderr


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    only = [word for name in QUICK for word in ("--only", name)]
    place = tmp_path_factory.mktemp("campaign") / "faults.json"
    code, found, told = campaign(place, "--times", "1", "--seed", "5", *only)
    assert found is not None, told
    assert code == any(row["not_survived"] for row in found["kinds"].values())
    return found


def survived(row, times):
    """Hold a row of what was found against what it must be; skip what cannot be tried here."""
    if row["not_here"]:
        pytest.skip(row["not_here"])
    assert row["not_survived"] == []
    assert row["survived"] == row["injected"] == times - row["not_injected"]
    assert row["injected"] >= times / 2


@pytest.mark.parametrize("kind", QUICK)
def test_a_fault_is_survived(quick, kind):
    assert set(quick["kinds"]) == set(QUICK) <= set(KINDS)
    survived(quick["kinds"][kind], 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_faults_of_every_kind_are_survived(tmp_path, kind):
    _, found, told = campaign(
        tmp_path / "faults.json", "--times", "4", "--seed", "6", "--only", kind
    )
    assert found is not None, told
    survived(found["kinds"][kind], 4)


@pytest.mark.slow
def test_processes_that_are_started_anew_do_as_those_that_are_forked(tmp_path):
    only = ("--only", "kill -9 of a run", "--only", "SIGTERM", "--only", "disk full (ENOSPC)")
    _, found, told = campaign(tmp_path / "faults.json", "--fresh", "--times", "2", *only)
    assert found is not None, told
    for row in found["kinds"].values():
        survived(row, 2)


@pytest.mark.slow
def test_behaviours_of_servers_are_survived(tmp_path):
    script, output = SCRIPT.with_name("server_behaviours.py"), tmp_path / "found.json"
    line = [sys.executable, script, "--cases", "4", "--seed", "3", "--output", output]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())["kinds"].values()
    assert sum(row["survived"] for row in found) == sum(row["injected"] for row in found) == 4


def test_what_is_not_survived_is_counted_and_named(tmp_path, monkeypatch):
    """A campaign that finds nothing wrong with anything would say nothing."""
    import argparse

    import campaign as module
    from ground import NotHere, NotInjected, Reference

    def loses(ground):
        assert ground.chance.random() < 0.5, "a turn is gone"

    def never(ground):
        raise NotInjected

    def nowhere(ground):
        raise NotHere("there is no such thing")

    whole = Reference(tmp_path, [], {}, {}, False, {})
    monkeypatch.setattr(module, "undisturbed", lambda place, **given: whole)
    given = argparse.Namespace(seed=3, first=0, times=40, fresh=False)
    kinds = {"loses": loses, "never": never, "nowhere": nowhere}
    found = module.campaign(tmp_path / "place", kinds, given)
    lost = [one["number"] for one in found["kinds"]["loses"]["not_survived"]]
    assert 5 < len(lost) < 35
    assert found["kinds"]["loses"]["survived"] == 40 - len(lost)
    assert "a turn is gone" in module.table(found)
    given = argparse.Namespace(seed=3, first=lost[0], times=1, fresh=False)
    again = module.campaign(tmp_path / "place", {"loses": loses}, given)
    assert again["survived"] == 0, "the same number of the same seed is another attempt"
    assert found["kinds"]["never"]["injected"] == found["kinds"]["nowhere"]["injected"] == 0
    assert found["kinds"]["nowhere"]["not_here"] == "there is no such thing"
    assert (found["injected"], found["survived"]) == (40, 40 - len(lost))
