"""Run folders of every released form are read and gone on with; others are refused with the way out."""

import json
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from render_agent.analysis.live.run import LiveRun
from render_agent.config import fingerprint_of
from render_agent.runs.log.folder import RunFolder, list_runs
from render_agent.runs.log.reader import read_states
from render_agent.runs.log.schema import FORMAT, READABLE_FORMATS

KEPT = Path(__file__).parent / "formats"

FINISHED, CHOSEN, CUT, BARE = (f"20260101T00000{number}_batched" for number in range(4))


@pytest.fixture(params=sorted(KEPT.iterdir()), ids=lambda path: f"format {path.name}")
def kept(request, tmp_path):
    """A copy of the folder that a release left behind, its files naming their present place."""
    folder = shutil.copytree(request.param, tmp_path / "kept")
    for file in folder.rglob("*.json*"):
        file.write_text(file.read_text("utf-8").replace("{HERE}", str(folder)), "utf-8")
    return folder


def test_every_form_that_is_read_is_kept():
    assert (
        {int(path.name) for path in KEPT.iterdir()}
        == set(READABLE_FORMATS)
        == set(range(1, FORMAT + 1))
    )
    for place in KEPT.iterdir():
        runs = list_runs(place / "runs")
        assert [run.name for run in runs] == [FINISHED, CHOSEN, CUT, BARE]
        assert {json.loads((run / "config.json").read_text())["format"] for run in runs} == {
            int(place.name)
        }


def test_what_is_kept_is_small_and_names_no_machine():
    files = [file for file in KEPT.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 200_000 * FORMAT
    for file in files:
        if file.suffix in (".json", ".jsonl", ".csv", ".lock"):
            assert not re.search(r'"/|/home/|/tmp/|process (?!1 )', file.read_text("utf-8")), file


def test_it_is_listed_and_shown(kept, type_in):
    code, out, _ = type_in("ls", "--output", "runs", folder=kept)
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[1:]] == [
        "complete", "complete", "unfinished", "unfinished",
    ]  # fmt: skip
    for run in (FINISHED, CHOSEN):
        code, out, _ = type_in("show", run, "--output", "runs", folder=kept)
        assert (code, "official" in out) == (0, True)
        for question in ("0", "../odd"):
            code, out, _ = type_in("show", run, question, "--output", "runs", folder=kept)
            assert (code, "reply: " in out) == (0, True)
        assert ("chosen (lookahead" in out) == (run == CHOSEN)


def test_its_figures_stay_what_they_were(kept, type_in):
    for run in (FINISHED, CHOSEN):
        place = kept / "runs" / run
        before = {name: (place / name).read_bytes() for name in ("results.json", "results.csv")}
        code, _, err = type_in("rescore", run, "--output", "runs", folder=kept)
        assert code == 0, err
        assert (place / "results.csv").read_bytes() == before["results.csv"]
        was, now = json.loads(before["results.json"]), RunFolder(place).results()
        assert as_far_as(was, now) == was


def as_far_as(was, now):
    """What there is now of what there was: keys may have grown."""
    if isinstance(was, dict):
        return {name: as_far_as(value, now[name]) for name, value in was.items()}
    return now


@pytest.mark.parametrize("run", [CUT, BARE])
def test_it_is_gone_on_with(kept, run, type_in):
    place = kept / "runs" / run
    record = (place / "config.json").read_bytes()
    log = place / "turns.jsonl"
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    views = {file: file.read_bytes() for file in place.rglob("*.png")}
    code, _, err = type_in("--continue", run, "--output", "runs", folder=kept)
    assert code == 0, err
    assert "drew some pictures differently" in " ".join(err.split())
    assert RunFolder(place).results()["counts"]["answered"] == 2
    assert (place / "config.json").read_bytes() == record
    assert log.read_bytes().split(b"\n")[: len(lines)] == lines
    assert {file: file.read_bytes() for file in views} == views
    code, _, err = type_in("--continue", run, "--output", "runs", folder=kept)
    assert (code, "is complete" in err) == (0, True)


def test_what_was_cut_off_comes_to_what_a_run_of_today_comes_to(kept, type_in):
    for run in (CUT, BARE):
        assert type_in("--continue", run, "--output", "runs", folder=kept)[0] == 0
    old, new = (
        [
            {name: line[name] for name in ("question_id", "turn", "reply", "happened", "camera")}
            for line in sorted(
                RunFolder(kept / "runs" / run).lines(), key=lambda x: (x["question_id"], x["turn"])
            )
        ]
        for run in (CUT, BARE)
    )
    assert old == new


def test_it_is_reported_and_looked_at(kept, type_in, tmp_path):
    for run in (CHOSEN, CUT):
        code, out, err = type_in("report", run, "--output", "runs", "--processes", "1", folder=kept)
        assert code == 0, err
        index = kept / out.strip()
        assert len(list((index.parent / "questions").glob("*.html"))) == 2
        scratch = tmp_path / f"live {run}"
        scratch.mkdir()
        live = LiveRun(RunFolder(kept / "runs" / run), scratch)
        assert live.standing()["questions"] == 2
        assert "Turn by turn" in live.question("0")[0]


@pytest.mark.parametrize("form", ["messages", "csv", "turns-csv", "pairs"])
def test_it_is_exported(kept, form, type_in):
    run = CHOSEN if form == "pairs" else FINISHED
    words = ["export", run, "--format", form, "--to", f"out-{form}", "--output", "runs"]
    code, out, err = type_in(*words, folder=kept)
    if form == "pairs" and "no turn" in err:  # equal scores make no pair
        return
    assert code == 0, err
    assert int(out.split()[0]) > 0
    assert (kept / f"out-{form}").stat().st_size > 100


def test_it_is_compared_with_another(kept, type_in):
    words = ["compare", FINISHED, CHOSEN, "--anyway", "--page", "pages", "--output", "runs"]
    code, out, err = type_in(*words, folder=kept)
    assert code == 0, err
    assert "official" in out
    assert (kept / "pages" / "index.html").is_file()


def spoilt(kept, **changed):
    """Return the finished run with another record."""
    place = kept / "runs" / FINISHED
    record = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(record | changed))
    return place


OTHERS = [
    ({"format": FORMAT + 1, "program": "9.8.7"},
     r"has format {newer}, written by render_agent 9\.8\.7, and this is render_agent {own}, which reads format"
     r" {format} at the most: install that version, or a newer one"),
    ({"format": 10**30}, "install that version, or a newer one"),
    ({"format": 0}, "has format 0, which no version wrote: restore its config.json"),
    ({"format": -1}, "which no version wrote"),
    ({"format": "1"}, "has format '1', which no version wrote"),
    ({"format": 1.0}, "which no version wrote"),
    ({"format": True}, "which no version wrote"),
    ({"format": None}, "has format None, which no version wrote"),
    ({"format": [1] * 10_000}, "which no version wrote"),
]  # fmt: skip


COMMANDS = ("--continue", "show", "report", "compare", "rescore", "export")


@pytest.mark.parametrize(
    ("changed", "said", "command"),
    [(*OTHERS[0], command) for command in COMMANDS] + [(*other, "show") for other in OTHERS[1:]],
    ids=lambda value: str(value)[:30],
)
def test_another_form_is_refused_with_the_way_out(kept, changed, said, command, type_in):
    place = spoilt(kept, **changed)
    before = {file: file.stat().st_mtime_ns for file in place.rglob("*")}
    more = {"compare": [CHOSEN], "export": ["--format", "csv", "--to", "x.csv"]}.get(command, [])
    code, out, err = type_in(command, place, *more, "--output", "runs", folder=kept)
    own = re.escape(version("render_agent"))
    said = said.replace("{newer}", str(FORMAT + 1)).replace("{format}", str(FORMAT))
    assert (code, out) == (1, "")
    assert re.search(said.replace("{own}", own), err), err
    assert len(err) < 600
    assert err.count("\n") == 1
    assert {file: file.stat().st_mtime_ns for file in place.rglob("*")} == before


def test_a_form_that_is_read_no_more_is_refused_with_the_way_out(kept, monkeypatch, type_in):
    monkeypatch.setattr("render_agent.runs.log.schema.FORMAT", FORMAT + 2)
    monkeypatch.setattr("render_agent.runs.log.schema.READABLE_FORMATS", (FORMAT + 1, FORMAT + 2))
    code, _, err = type_in("show", kept / "runs" / FINISHED, folder=kept)
    assert code == 1
    assert err.endswith(
        f"has format {FORMAT}, written by render_agent 0.1.0, and this is render_agent"
        f" {version('render_agent')}, which reads format {FORMAT + 1} on: use the version that wrote it\n"
    )


def test_options_of_a_newer_version_in_the_same_form_are_refused(kept, type_in):
    place = kept / "runs" / FINISHED
    record = json.loads((place / "config.json").read_text())
    spoilt(kept, config=record["config"] | {"teleport": True}, program="0.2.0")
    code, _, err = type_in("show", place, "0", folder=kept)
    assert code in (0, 1)
    code, _, err = type_in("report", place, folder=kept)
    assert code == 1
    assert "there is no option 'teleport'" in err
    assert "written by render_agent 0.2.0; use that version, or a newer one" in err


def test_options_that_came_later_have_their_defaults(kept):
    place = kept / "runs" / FINISHED
    record = json.loads((place / "config.json").read_text())
    config = {name: value for name, value in record["config"].items() if name != "rubric"}
    spoilt(kept, config=config, fingerprint=fingerprint_of(config))
    folder = RunFolder(place)
    assert folder.config.rubric == "view"
    assert len(read_states(folder)) == 2
