"""The report on disk: every link leads somewhere, and it may be built at any time, again and again."""

import json
import re
import shutil
from urllib.parse import unquote

import pytest
from factories.reports import assert_whole, go, reported, run_hostile, run_rooms
from factories.runs import SMALL, make_questions, play, walking
from factories.scenes import room, write_ply

from render_agent.analysis.report.build import build, link_pictures
from render_agent.analysis.report.bundle import bundle
from render_agent.analysis.report.data import page_of, read_run
from render_agent.analysis.report.index.headline import against_siblings
from render_agent.cli.main import cli
from render_agent.config import RunConfig
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.reader import read_states
from render_agent.scene.free_space.free_space import FreeSpace
from render_agent.system.kept_files import FOLDER_VARIABLE


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = run_rooms(tmp_path_factory.mktemp("built"), limit=6, max_turns=3)
    reported(folder)
    return folder


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_link_and_picture_is_there_and_none_is_outside(run):
    place = run.path / "report"
    pages = [*place.rglob("*.html")]
    assert len(pages) == 2 + 6
    pictures = 0
    for page in pages:
        found = assert_whole(page).found
        pictures += sum(tag == "img" for tag, _, _ in found)
        files = [(page.parent / unquote(value.partition("#")[0])).resolve() for *_, value in found]
        assert all(file.is_relative_to(run.path) for file in files)
    assert pictures >= 6 * 2


def test_what_a_stranger_laid_into_the_report_is_neither_run_nor_handed_on(run, tmp_path):
    place = run.path / "report"
    before = contents(place)
    (scene, *_) = (place / "scenes3d").iterdir()
    strange = ("evil.html", "assets/evil.js", "plots/evil.svg", "scenes3d/evil.js")
    for name in strange:
        (place / name).write_text("laid('by-a-stranger')")
    scene.write_text('renderAgentScene({"a": alert(1)}, "");\n')
    index, report = build(run, processes=1)
    (place / strange[0]).unlink()  # what lies beside the index may be its owner's
    assert contents(place) == before
    (place / strange[0]).write_text("laid('by-a-stranger')")
    bundle(report, index.parent, tmp_path / "bundled")
    (place / strange[0]).unlink()
    assert b"by-a-stranger" not in b"".join(contents(tmp_path / "bundled").values())


def test_the_same_run_gives_the_same_bytes_in_any_number_of_processes(run):
    place = run.path / "report"
    before = contents(place)
    build(run, processes=2)
    assert contents(place) == before


def test_a_later_report_has_the_bytes_of_the_first(run, tmp_path, monkeypatch):
    place = run.path / "report"
    before = contents(place)  # nothing was kept when these were made
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))

    def anew(processes):
        shutil.rmtree(place)
        build(run, processes=processes)
        return contents(place)

    assert anew(2) == before
    scenes = {question.scene for question in run.questions()}
    entries = contents(tmp_path / "kept")
    # plan, scene in 3D, visible surface, surfaces of boxes
    assert len(entries) == 4 * len(scenes)
    monkeypatch.setattr(FreeSpace, "of", None)  # which is not asked for
    assert anew(1) == before
    monkeypatch.undo()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    for name, entry in entries.items():
        (tmp_path / "kept" / name).write_bytes(entry[: len(entry) // 2])
    assert anew(1) == before
    assert contents(tmp_path / "kept") == entries


def test_pictures_are_links_to_those_of_the_run_whatever_lay_in_their_places(run, tmp_path):
    states = read_states(run)
    linked = link_pictures(run.path, states, tmp_path)
    files = {file for state in states for turn in state.turns for file in turn.drawn}
    assert linked == {f"{tmp_path}/{file}" for file in files}
    laid, copied, gone, *_ = sorted(files)
    for file in (laid, copied):
        (tmp_path / file).unlink()
    (tmp_path / laid).write_bytes(b"another picture")
    (tmp_path / copied).write_bytes((run.path / copied).read_bytes())
    (tmp_path / gone).unlink()
    (tmp_path / gone).symlink_to(tmp_path / "nothing")
    assert link_pictures(run.path, states, tmp_path) == linked
    for file in files - {copied}:
        assert (tmp_path / file).samefile(run.path / file)
    assert not (tmp_path / copied).samefile(run.path / copied)


def test_pages_that_are_no_more_are_removed(run):
    place = run.path / "report" / "questions"
    for name in ("gone.html", ".0.html.part"):
        (place / name).write_text("half")
    reported(run, diagnose=False)
    assert {path.name for path in place.iterdir()} == {
        page_of(question.id).rpartition("/")[2] for question in run.questions()
    }


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = run_hostile(tmp_path_factory.mktemp("hostile"))
    reported(folder)
    return folder


def test_a_hostile_name_leads_to_a_page_within_the_report(hostile):
    place = hostile.path / "report"
    for question in hostile.questions():
        page = place / page_of(question.id)
        assert page.is_file()
        assert page.resolve().parent == place / "questions"


def test_questions_js_is_ascii_and_says_what_the_results_say(hostile):
    text = (hostile.path / "report" / "questions.js").read_bytes().decode("ascii")
    data = json.loads(text.removeprefix("window.REPORT = ").removesuffix(";\n"))
    places = {name: place for place, name in enumerate(data["columns"])}
    rows = hostile.results()["questions"]
    assert len(rows) == len(data["rows"]) == 3
    for row, compact in zip(rows, data["rows"], strict=True):
        assert compact[places["id"]] == row["question_id"]
        assert compact[places["score"]] == 100 * row["score"]
        for name in ("type", "scene", "status"):
            assert data["values"][name][compact[places[name]]] == row[name]


def test_a_run_in_progress_is_reported_and_stamped(tmp_path):
    questions = make_questions(tmp_path, 6)
    path, _ = play(tmp_path, questions, walking(6))
    done = RunFolder(path)
    assert "IN PROGRESS" not in reported(done, diagnose=False).read_text("utf-8")
    (path / "results.json").unlink()
    (path / "results.csv").unlink()
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["turn"] < 3]
    (path / "turns.jsonl").write_bytes(b"".join(kept) + lines[-1][:40])
    index = reported(RunFolder(path))
    stamp = "IN PROGRESS: 4 of 6 questions done"  # 2 and 5 would have said done in the fourth turn
    for page in [index, *index.parent.glob("questions/*.html")]:
        assert stamp in page.read_text("utf-8")
    assert "are still active: the run is unfinished" in index.read_text("utf-8")


def test_a_run_without_a_turn_is_reported(tmp_path):
    questions = make_questions(tmp_path, 2)
    path, _ = play(tmp_path, questions, walking(2))
    for name in ("results.json", "turns.jsonl"):
        (path / name).unlink()
    assert "IN PROGRESS: 0 of 2" in reported(RunFolder(path)).read_text("utf-8")


def test_the_command_prints_the_file_to_open(run, capfd):
    cli.main(
        ["report", run.name, "--output", str(run.path.parent), "--no-diagnosis"],
        standalone_mode=False,
    )
    told = capfd.readouterr()
    assert told.out.strip() == str(run.path / "report" / "index.html")
    assert re.fullmatch(r"6 questions, \d+\.\d s; open the file in a browser", told.err.strip())


def test_a_run_is_set_against_those_that_were_shown_something_else(tmp_path):
    seeing = run_rooms(tmp_path, limit=6, max_turns=2)
    blind = run_rooms(tmp_path, limit=6, max_turns=2, views="none")
    run_rooms(tmp_path, limit=6, max_turns=3, views="none")
    found = against_siblings(read_run(seeing, diagnose=False))
    assert [(row.shown, row.name) for row in found.differences] == [("views none", blind.name)]
    scores = [run.results()["official"] for run in (seeing, blind)]
    assert [float(row[1]) for row in found.plot.rows] == [round(score, 1) for score in scores]
    said = float(found.differences[0].difference.replace("−", "-"))
    assert said == pytest.approx(scores[1] - scores[0], abs=0.051)
    page = reported(seeing, diagnose=False).read_text("utf-8")
    assert "Does it depend on what is seen?" in page
    assert blind.name in page
    alone = run_rooms(tmp_path / "alone", limit=6, max_turns=2, views="none")
    assert against_siblings(read_run(alone, diagnose=False)) is None


def test_one_question_without_a_truth_has_a_report(tmp_path):
    write_ply(tmp_path / "room.ply", *room())
    asked = {"ply": str(tmp_path / "room.ply"), "question": "What is red?"}
    folder = go(RunConfig(output=str(tmp_path / "runs"), max_turns=2, **asked, **SMALL))
    page = reported(folder).read_text("utf-8")
    assert "No question is scored" in page
    assert "What is red?" in page
    assert "1 about 1 scene<" in page
