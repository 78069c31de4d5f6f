"""Every input file is read, or refused with one of the package's errors, however it was damaged."""

import json
import shutil

import numpy as np
import pytest
from factories import valid_files
from factories.runs import finish_run, make_config, make_questions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from render_agent.errors import RenderAgentError
from render_agent.runs.runner import start_run

# Bytes that break parsers more often than random ones.
PIECES = (
    b"", b"\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"nan", b"-1", b"1e999", b"99999999999999999999",
    b"null", b"[[[[", b"{}", b'"', b"\n", b"\r\n", b"\xef\xbb\xbf", "é".encode(), "\u202e".encode(),
)  # fmt: skip

FEW = settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # each of these inputs starts a process
SOME = settings(FEW, max_examples=40)


@st.composite
def damaged_files(draw, valid):
    """A valid file with up to four parts removed, replaced or repeated."""
    data = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + draw(st.sampled_from((1, 8, 400))))))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.just(data[start:end] * 2)))
        data = data[:start] + piece + data[end:]
    return data


def reads_or_refuses(read, max_faults=1):
    """Call `read`; errors must be the package's, with one line for each of at most `max_faults` faults."""
    refusal = "read"
    try:
        read()
    except RenderAgentError as error:
        refusal = str(error)
    lines = refusal.split("\n")
    assert all(line.strip() for line in lines)
    assert len(lines) <= max_faults


def check_scan(data, path):
    from render_agent.scans.formats.load import load_scene

    path.write_bytes(data)
    scene = load_scene(path)
    assert len(scene.points)
    assert np.isfinite(scene.points).all()
    assert np.isfinite([scene.floor, scene.ceiling, *scene.bounds.ravel()]).all()
    assert scene.colours.shape == scene.points.shape
    if scene.faces is not None:
        assert 0 <= scene.faces.min() <= scene.faces.max() < len(scene.points)


@pytest.mark.parametrize("suffix", ["ply", "glb", "gltf", "obj", "stl", "off", "pcd", "txt"])
@SOME
@given(data=st.data())
def test_damaged_scans_are_read_or_refused(suffix, tmp_path, data):
    content = data.draw(damaged_files(valid_files.scans(suffix)))
    reads_or_refuses(lambda: check_scan(content, tmp_path / f"scan.{suffix}"))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["las", "laz", "e57", "usd"])
@FEW
@given(data=st.data())
def test_damaged_scans_of_native_libraries_are_read_or_refused(suffix, tmp_path, data):
    content = data.draw(damaged_files(valid_files.scans(suffix)))
    reads_or_refuses(lambda: check_scan(content, tmp_path / f"scan.{suffix}"))


@pytest.mark.parametrize("kind", ["splats", "splat_plys"])
@SOME
@given(data=st.data())
def test_damaged_splats_are_read_or_refused(kind, tmp_path, data):
    content = data.draw(damaged_files(getattr(valid_files, kind)()))
    suffix = "splat" if kind == "splats" else "ply"
    reads_or_refuses(lambda: check_scan(content, tmp_path / f"scan.{suffix}"))


@pytest.mark.parametrize("suffix", ["jsonl", "json", "tsv", "parquet"])
@SOME
@given(data=st.data())
def test_damaged_question_files_are_read_or_refused(suffix, tmp_path, data):
    from render_agent.tasks.row_files import MAX_FAULTS, load_questions

    path = tmp_path / f"questions.{suffix}"
    path.write_bytes(data.draw(damaged_files(valid_files.questions(suffix))))

    def read():
        for question in load_questions(path, "vsibench"):
            assert question.id.isprintable()
            assert question.scene.isprintable()

    reads_or_refuses(read, MAX_FAULTS)


@SOME
@given(damaged_files((json.dumps(valid_files.ANNOTATIONS).encode(),)))
def test_damaged_annotations_are_read_or_refused(tmp_path, content):
    from render_agent.tasks.boxes.annotated_room import build_annotated_room
    from render_agent.tasks.boxes.annotations import read_annotations

    path = tmp_path / "scannet_meta_info_val.json"
    path.write_bytes(content)

    def read():
        for result in read_annotations(path).values():
            assert np.isfinite(build_annotated_room(result, path).points).all()

    reads_or_refuses(read)


@SOME
@given(damaged_files((json.dumps(valid_files.TRUTH).encode(),)))
def test_damaged_ground_truth_beside_a_scan_is_read_or_refused(tmp_path, content):
    from render_agent.tasks.ground_truth import load_facts
    from render_agent.tasks.rows import question_from_row

    scan = tmp_path / "room.ply"
    scan.with_suffix(".json").write_bytes(content)
    question = question_from_row(valid_files.ROWS[2], "rooms", scan)

    def read():
        for facts in load_facts([question]).values():
            boxes = [box for group in facts.boxes.values() for box in group]
            assert all(np.isfinite(box.corners).all() for box in boxes)

    reads_or_refuses(read)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run of two turns."""
    folder = tmp_path_factory.mktemp("finished")
    run = start_run(make_config(folder, make_questions(folder), max_turns=2))
    finish_run(run)
    return run.path


@pytest.mark.parametrize("name", ["config.json", "questions.jsonl", "turns.jsonl", "results.json"])
@settings(SOME, max_examples=20)  # each of these starts four commands
@given(data=st.data())
def test_damaged_run_folders_are_reported(name, finished, tmp_path, type_in, data):
    """`ls` and `show` report the damage; no other error escapes."""
    content = data.draw(damaged_files(((finished / name).read_bytes(),)))
    folder = tmp_path / finished.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(finished, folder)
    (folder / name).write_bytes(content)
    for arguments in (("ls",), ("show", folder), ("show", folder, "0"), ("rescore", folder)):
        code, _, output = type_in(*arguments, "--output", tmp_path, folder=tmp_path)
        assert code in (0, 1), output
        assert "Traceback" not in output
