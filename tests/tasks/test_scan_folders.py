"""Scans are found in the layouts of the three data sets, and what is missing is told before a run."""

from collections import Counter

import pytest
from conftest import test_data
from factories.scans import mesh_ply, room
from factories.splats import compressed_ply, some_splat

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.tasks.scan_folders import (
    LAYOUTS,
    Missing,
    find_beside,
    find_scan,
    missing_scans,
    refuse_missing,
    searched,
    with_scans,
)
from render_agent.tasks.vsibench import load_vsibench

LAID_OUT = [(dataset, layout) for dataset, layouts in LAYOUTS.items() for layout in layouts]


@pytest.fixture(scope="module")
def questions():
    return load_vsibench(str(test_data("vsibench", "test.jsonl")))


def about(dataset, scene, number=0):
    return Question(
        f"{scene}-{number}", "vsibench", dataset, scene, "object_counting", "?", "number"
    )


def lay(root, dataset, scene, layout=0):
    scan = root / LAYOUTS[dataset][layout].format(id=scene)
    scan.parent.mkdir(parents=True)
    scan.touch()
    return scan


@pytest.mark.parametrize(("dataset", "layout"), LAID_OUT)
def test_a_scan_is_found_in_every_layout_of_its_data_set(tmp_path, dataset, layout):
    scan = tmp_path / layout.format(id="scene7")
    scan.parent.mkdir(parents=True)
    scan.touch()
    roots = {dataset: [str(tmp_path)]}
    assert find_scan(dataset, "scene7", roots) == scan
    assert find_scan(dataset, "scene8", roots) is None
    assert find_scan(dataset, "scene7", {}) is None
    assert find_scan("another", "scene7", {"another": [str(tmp_path)]}) is None


def test_the_layouts_are_those_of_the_data_sets():
    assert "scans/{id}/{id}_vh_clean_2.ply" in LAYOUTS["scannet"]
    assert "data/{id}/scans/mesh_aligned_0.05.ply" in LAYOUTS["scannetpp"]
    for split in ("Training", "Validation"):
        for root in ("", "3dod/", "raw/"):
            assert f"{root}{split}/{{id}}/{{id}}_3dod_mesh.ply" in LAYOUTS["arkitscenes"]


def test_several_folders_are_looked_through_in_their_order(tmp_path):
    roots = [tmp_path / name for name in ("one", "two")]
    both = [lay(root, "scannet", "scene1") for root in roots]
    second = lay(roots[1], "scannet", "scene2", layout=1)
    given = {"scannet": [str(root) for root in roots]}
    assert find_scan("scannet", "scene1", given) == both[0]
    assert find_scan("scannet", "scene2", given) == second
    backwards = {"scannet": given["scannet"][::-1]}
    assert find_scan("scannet", "scene1", backwards) == both[1]


def test_a_link_is_not_followed_as_its_alignment_lies_beside_it(tmp_path):
    stored = tmp_path / "store/7f3a.ply"
    stored.parent.mkdir()
    stored.touch()
    link = tmp_path / "scans/scene1/scene1_vh_clean_2.ply"
    link.parent.mkdir(parents=True)
    link.symlink_to(stored)
    assert find_scan("scannet", "scene1", {"scannet": [str(tmp_path)]}) == link


def test_all_288_scans_are_found_in_a_whole_tree(questions, tmp_path):
    scenes = {(question.dataset, question.scene) for question in questions}
    scans = {scene: lay(tmp_path / scene[0], *scene) for scene in scenes}
    assert Counter(dataset for dataset, _ in scenes) == {
        "scannet": 88,
        "scannetpp": 50,
        "arkitscenes": 150,
    }
    found = with_scans(questions, {name: [str(tmp_path / name)] for name in LAYOUTS})
    assert [question.id for question in found] == [question.id for question in questions]
    assert all(question.scan == scans[question.dataset, question.scene] for question in found)
    refuse_missing(found, {})


def test_what_is_missing_is_counted_by_data_set(tmp_path):
    lay(tmp_path, "scannet", "a")
    asked = [about("scannet", scene, number) for scene in "acb" for number in range(3)]
    asked += [about("scannetpp", "x")]
    found = with_scans(asked, {"scannet": [str(tmp_path)]})
    assert missing_scans(found) == [
        Missing("scannet", ("b", "c"), 6),
        Missing("scannetpp", ("x",), 1),
    ]


def test_a_run_with_missing_scans_is_told_which_how_many_and_where_was_looked(tmp_path):
    lay(tmp_path, "scannet", "a")
    roots = {"scannet": [str(tmp_path)]}
    asked = [about("scannet", scene, number) for scene in "abc" for number in range(3)]
    asked += [about("arkitscenes", f"4{number:03}") for number in range(20)]
    found = with_scans(asked, roots)
    with pytest.raises(SetupError) as caught:
        refuse_missing(found, searched(roots))
    told = str(caught.value)
    for part in (
        *(
            "22 of 23 scenes",
            "26 of 29 questions",
            "4007 and 12 more",
            "--arkitscenes",
            "scannet b, c",
        ),
        *(f"scans/ID/ID_vh_clean_2.ply below {tmp_path}", "--allow-missing"),
    ):
        assert part in told


def test_no_scan_at_all_says_which_options_to_give(questions, tmp_path):
    with pytest.raises(SetupError) as caught:
        with_scans(questions, {})
    for part in (
        "288 scans",
        "--arkitscenes DIR, --scannet DIR, --scannetpp DIR",
        "--annotations DIR",
        "--benchmark rooms",
    ):
        assert part in str(caught.value)
    with pytest.raises(SetupError, match="none of the 288 scans"):
        with_scans(questions, {"scannet": [str(tmp_path)]})
    assert with_scans([], {}) == []


def test_a_folder_that_is_not_there_is_named(questions, tmp_path):
    with pytest.raises(SetupError, match=r"--scannet .*missing is no folder"):
        with_scans(questions, {"scannet": [str(tmp_path), str(tmp_path / "missing")]})
    with pytest.raises(SetupError, match=r"there are no annotations at .*missing"):
        with_scans(questions, {}, str(tmp_path / "missing"))


def test_rooms_from_annotations_stand_in_for_what_is_missing(questions, tmp_path):
    folder = test_data("vsibench", "scannet_meta_info_val.json").parent
    first = next(question for question in questions if question.dataset == "scannet")
    scan = lay(tmp_path, "scannet", first.scene)
    for question in with_scans(questions, {"scannet": [str(tmp_path)]}, str(folder)):
        if question.scene == first.scene:
            assert question.scan == scan
        else:
            assert question.scan == folder / f"{question.dataset}_meta_info_val.json"


def test_scans_of_any_format_lie_beside_questions_and_a_mesh_goes_before_a_cloud_before_a_splat(
    tmp_path,
):
    points, faces = room()
    (tmp_path / "a.ply").write_bytes(mesh_ply(points, faces))
    assert find_beside(tmp_path, "a") == tmp_path / "a.ply"
    (tmp_path / "a.ply").write_bytes(mesh_ply(points, faces[:0]))
    (tmp_path / "a.glb").write_bytes(b"glTF")
    (tmp_path / "a.compressed.ply").write_bytes(compressed_ply(some_splat()))
    (tmp_path / "a.txt").write_text("axisAlignment = 1")
    assert find_beside(tmp_path, "a") == tmp_path / "a.glb"
    (tmp_path / "a.glb").unlink()
    assert find_beside(tmp_path, "a") == tmp_path / "a.ply"
    (tmp_path / "a.ply").unlink()
    assert find_beside(tmp_path, "a") == tmp_path / "a.compressed.ply"
    assert find_beside(tmp_path, "b") is find_beside(tmp_path, "../a") is None
