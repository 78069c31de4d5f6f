"""Run folders from outside: nothing beyond the folder is read, written or exported through links and names."""

import contextlib
import json
import os
import shutil
from dataclasses import replace

import pytest
from factories.runs import (
    finish_run,
    make_config,
    make_questions,
    play,
    resume,
    truncate_log,
    walking_engine,
)
from PIL import EpsImagePlugin, Image, UnidentifiedImageError

from render_agent import registry
from render_agent.agents.verifiers.judge.batch_score import read_image
from render_agent.cli.main import cli
from render_agent.errors import RunLogError, SceneError
from render_agent.report.export.writers import ExportOptions, export
from render_agent.report.pages.build import build_report
from render_agent.runs.merge_shards import merge_shards
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent.scans.formats.load import load_scene
from render_agent.util.atomic_files import atomic_write
from render_agent.util.contained_paths import RUN_FILES, image_path, is_image_name
from render_agent.views.image_store import ImageStore

FOLDERS = ("views", "report")


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    path, _ = play(folder, make_questions(folder, 2), walking_engine(2), max_turns=4)
    return path


@pytest.fixture
def run(finished_run, tmp_path):
    """A finished run that tests may damage."""
    return shutil.copytree(finished_run, tmp_path / "runs" / finished_run.name)


@pytest.fixture
def victim(tmp_path):
    """A folder outside the run, which must not be read or changed."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "secret.png").write_bytes(b"a secret")
    (folder / "secret.txt").write_text("a secret\ntorn")
    return folder


def state_of(folder):
    return {
        file: (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("name", RUN_FILES)
@pytest.mark.parametrize("existing_target", [True, False])
def test_outward_link_is_refused_first(run, victim, name, existing_target):
    target = victim if name in FOLDERS else victim / "secret.txt"
    if not existing_target:
        target = victim / "not yet"
    if name == "config.json" and existing_target:
        shutil.copy(run / name, victim / "secret.txt")
    before = state_of(victim)
    if (run / name).is_dir():
        shutil.rmtree(run / name)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(target)
    with pytest.raises(
        RunLogError, match="leads out of" if existing_target or name != RUN_FILES[0] else "is not a"
    ):
        resume_run(RunData(run), {})
    assert state_of(victim) == before
    assert not (victim / "not yet").exists()


def test_link_within_the_folder_is_followed(run):
    (run / "turns.jsonl").rename(run / "kept.jsonl")
    (run / "turns.jsonl").symlink_to("kept.jsonl")
    assert len(RunData(run).states) == 2


def test_circular_links_are_refused(run):
    (run / "views").rename(run / "elsewhere")
    (run / "views").symlink_to("views")
    with pytest.raises(RunLogError):
        RunData(run)


@pytest.mark.parametrize("name", ["turns.jsonl", "run.lock", "results.json"])
def test_pipe_instead_of_a_file_does_not_block(run, name):
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(RunLogError, match=name):
        RunData(run)
    image = next((run / "views").rglob("*.png"))
    image.unlink()
    os.mkfifo(image)
    with pytest.raises(RunLogError, match=image.name):
        image_path(run, str(image.relative_to(run)))


def test_pipe_in_a_report_is_replaced(run):
    path = run / "report" / "index.html"
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    build_report(RunData(run), processes=1)
    assert path.is_file()


def test_images_are_not_written_through_a_linked_folder(run, victim, tmp_path):
    truncate_log(run, 2)
    shutil.rmtree(run / "views" / "0")
    (run / "views" / "0").symlink_to(victim)
    before = state_of(victim)
    with pytest.raises(RunLogError, match="leads out of"):
        resume(run, walking_engine(2))
    assert state_of(victim) == before


def test_temporary_files_are_not_written_through_a_link(run, victim):
    before = state_of(victim)
    (run / ".results.json.part").symlink_to(victim / "secret.txt")
    with pytest.raises(RunLogError, match="cannot write"):
        cli.main(["rescore", str(run)], standalone_mode=False)
    with pytest.raises(RunLogError, match="cannot write"):
        atomic_write(run / "results.json", b"{}")
    assert state_of(victim) == before


@pytest.mark.parametrize("linked", ["questions", "plans", "assets", "index.html", "plots"])
def test_pages_are_not_written_through_a_link(run, victim, linked):
    (run / "report").mkdir()
    (run / "report" / linked).symlink_to(victim if "." not in linked else victim / "secret.txt")
    before = state_of(victim)
    build_report(RunData(run), processes=1)
    assert state_of(victim) == before
    assert not any(path.is_symlink() for path in (run / "report").rglob("*"))


OUTSIDE = [
    "../victim/secret.png", "/etc/passwd", "views/../../victim/secret.png", "turns.jsonl", "", "views/.hidden.png",
    "views/0/x.html", "views\\0\\0_ego.png", "views/a\0.png", "javascript:alert(1)//.png", "views/%2e%2e/a.png",
    "views/<b>.png", None,
]  # fmt: skip


@pytest.mark.parametrize("file", OUTSIDE)
@pytest.mark.parametrize("field", ["view", "message"])
def test_log_cannot_name_images_outside(run, file, field):
    assert not is_image_name(file)
    lines = [json.loads(line) for line in (run / "turns.jsonl").read_text().splitlines()]
    if field == "view":
        lines[0]["views"][0]["file"] = file
    else:
        pieces = [piece for entry in lines[0]["messages"] for piece in entry["content"]]
        next(piece for piece in pieces if piece["type"] == "image")["image"] = file
    (run / "turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(RunLogError, match=r"line 1 .*(views|messages)\["):
        _ = RunData(run).states


@pytest.mark.parametrize("file", ["", "a\0b", "x" * 256, "/a/" * 2000 + "b", "é" * 128, 7])
def test_invalid_scan_path_is_refused(run, file):
    rows = [json.loads(line) for line in (run / "questions.jsonl").read_text().splitlines()]
    rows[0]["scan"] = file
    (run / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(RunLogError, match=r"questions\.jsonl.*scan"):
        _ = RunData(run).questions


def test_image_names_of_a_run_are_valid(finished_run):
    files = [
        str(file.relative_to(finished_run)) for file in (finished_run / "views").rglob("*.png")
    ]
    assert len(files) > 3
    assert all(map(is_image_name, files))


def linked_image(run, victim):
    """Replace an image of the run by a link to a file outside; return its name."""
    file = next(file for file in (run / "views" / "0").iterdir())
    file.unlink()
    file.symlink_to(victim / "secret.png")
    return str(file.relative_to(run))


def test_images_are_not_read_through_a_link(run, victim):
    file = linked_image(run, victim)
    with pytest.raises(RunLogError, match="leads out of"):
        image_path(run, file)
    with pytest.raises(RunLogError, match="leads out of"):
        ImageStore(run).get(file)


def test_linked_files_are_not_exported(run, victim, tmp_path):
    pytest.importorskip("inspect_ai")
    linked_image(run, victim)
    with pytest.raises(RunLogError, match="leads out of"):
        export([RunData(run)], "inspect", tmp_path / "log.json", ExportOptions(embed=True))
    assert not (tmp_path / "log.json").exists()


def test_shards_with_linked_images_are_not_merged(tmp_path, victim):
    questions = make_questions(tmp_path, 1)
    log = start_run(replace(make_config(tmp_path, questions, max_turns=3), shard="1/1"))
    finish_run(log, lambda config, questions: walking_engine(1))
    linked_image(log.path, victim)
    with pytest.raises(RunLogError, match="leads out of"):
        merge_shards(tmp_path / "merged", [RunData(log.path)])


# A PostScript image, which Pillow would pass to Ghostscript.
PROGRAM = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"


@pytest.fixture
def ghostscript(tmp_path, monkeypatch):
    """The file that a fake Ghostscript would write."""
    mark, programs = tmp_path / "was here", tmp_path / "bin"
    programs.mkdir()
    (programs / "gs").write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    (programs / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # reset Pillow's cached result
    return mark


def test_postscript_image_is_not_executed(run, ghostscript):
    file = next(file for file in (run / "views" / "0").iterdir())
    file.write_bytes(PROGRAM)
    with pytest.raises(RunLogError, match="cannot read the image"):
        ImageStore(run).get(str(file.relative_to(run)))
    with pytest.raises(UnidentifiedImageError):
        read_image(str(file))
    assert not ghostscript.exists()


def test_postscript_texture_is_not_executed(tmp_path, ghostscript):
    (tmp_path / "paint.eps").write_bytes(PROGRAM)
    (tmp_path / "paint.mtl").write_text("newmtl m\nmap_Kd paint.eps\n")
    lines = ["mtllib paint.mtl", "v 0 0 0", "v 3 0 0", "v 0 3 0", "v 0 0 3", "vt 0 0", "vt 1 0"]
    lines += ["vt 0 1", "usemtl m", "f 1/1 2/2 3/3", "f 1/1 2/2 4/3"]
    (tmp_path / "room.obj").write_text("\n".join(lines) + "\n")
    with contextlib.suppress(SceneError):
        load_scene(tmp_path / "room.obj")
    assert not ghostscript.exists()
    EpsImagePlugin.gs_binary = None
    with contextlib.suppress(OSError), Image.open(tmp_path / "paint.eps") as image:
        image.load()
    assert ghostscript.exists()  # the file would have been written


def test_decompression_bomb_is_refused(run):
    import struct
    import zlib

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    body = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    file = next(file for file in (run / "views" / "0").iterdir())
    file.write_bytes(body)
    with pytest.raises(RunLogError, match="cannot read the image"):
        ImageStore(run).get(str(file.relative_to(run)))


@pytest.mark.parametrize("command", ["show", "report", "rescore", "diagnose", "view"])
def test_every_command_reports_outward_links(run, victim, command, type_in):
    (run / "turns.jsonl").unlink()
    (run / "turns.jsonl").symlink_to(victim / "secret.txt")
    code, out, err = type_in(command, run, folder=run.parent)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert "leads out of" in err
    assert command in registry.names("command")
