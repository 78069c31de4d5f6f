"""Scans are located in the layouts of the three data sets, and missing ones are reported before a run."""

from collections import Counter

import pytest
from conftest import test_data
from factories.scans import mesh_ply, room
from factories.splats import compressed_ply, random_splat

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.tasks.scan_folders import (
    LAYOUTS,
    find_in_folder,
    find_scan,
    missing_scans,
    refuse_missing,
    search_places,
    with_scans,
)
from render_agent.tasks.vsibench import load_vsibench

LAID_OUT = [(dataset, layout) for dataset, layouts in LAYOUTS.items() for layout in layouts]


@pytest.fixture(scope="module")
def questions():
    return load_vsibench(str(test_data("vsibench", "test.jsonl")))


def question_about(dataset, scene, number=0):
    return Question(
        f"{scene}-{number}", "vsibench", dataset, scene, "object_counting", "?", "number"
    )


def touch_scan(root, dataset, scene, layout=0):
    scan = root / LAYOUTS[dataset][layout].format(id=scene)
    scan.parent.mkdir(parents=True)
    scan.touch()
    return scan


@pytest.mark.parametrize(("dataset", "layout"), LAID_OUT)
def test_find_scan_in_every_layout(tmp_path, dataset, layout):
    scan = tmp_path / layout.format(id="scene7")
    scan.parent.mkdir(parents=True)
    scan.touch()
    roots = {dataset: [str(tmp_path)]}
    assert find_scan(dataset, "scene7", roots) == scan
    assert find_scan(dataset, "scene8", roots) is None
    assert find_scan(dataset, "scene7", {}) is None
    assert find_scan("another", "scene7", {"another": [str(tmp_path)]}) is None


def test_layouts_match_the_original_downloads():
    assert "scans/{id}/{id}_vh_clean_2.ply" in LAYOUTS["scannet"]
    assert "data/{id}/scans/mesh_aligned_0.05.ply" in LAYOUTS["scannetpp"]
    for split in ("Training", "Validation"):
        for root in ("", "3dod/", "raw/"):
            assert f"{root}{split}/{{id}}/{{id}}_3dod_mesh.ply" in LAYOUTS["arkitscenes"]


def test_roots_are_searched_in_order(tmp_path):
    roots = [tmp_path / name for name in ("one", "two")]
    duplicates = [touch_scan(root, "scannet", "scene1") for root in roots]
    second = touch_scan(roots[1], "scannet", "scene2", layout=1)
    in_order = {"scannet": [str(root) for root in roots]}
    assert find_scan("scannet", "scene1", in_order) == duplicates[0]
    assert find_scan("scannet", "scene2", in_order) == second
    reversed_order = {"scannet": in_order["scannet"][::-1]}
    assert find_scan("scannet", "scene1", reversed_order) == duplicates[1]


def test_links_are_not_resolved(tmp_path):
    stored = tmp_path / "store/7f3a.ply"
    stored.parent.mkdir()
    stored.touch()
    link = tmp_path / "scans/scene1/scene1_vh_clean_2.ply"
    link.parent.mkdir(parents=True)
    link.symlink_to(stored)
    assert find_scan("scannet", "scene1", {"scannet": [str(tmp_path)]}) == link


def test_all_288_scans_are_found_in_a_complete_tree(questions, tmp_path):
    scenes = {(question.dataset, question.scene) for question in questions}
    scans = {scene: touch_scan(tmp_path / scene[0], *scene) for scene in scenes}
    assert Counter(dataset for dataset, _ in scenes) == {
        "scannet": 88,
        "scannetpp": 50,
        "arkitscenes": 150,
    }
    with_scan_paths = with_scans(questions, {name: [str(tmp_path / name)] for name in LAYOUTS})
    assert [question.id for question in with_scan_paths] == [question.id for question in questions]
    assert all(
        question.scan == scans[question.dataset, question.scene] for question in with_scan_paths
    )
    refuse_missing(with_scan_paths, {})


def test_missing_scans_are_counted_by_data_set(tmp_path):
    touch_scan(tmp_path, "scannet", "a")
    questions = [question_about("scannet", scene, number) for scene in "acb" for number in range(3)]
    questions += [question_about("scannetpp", "x")]
    with_scan_paths = with_scans(questions, {"scannet": [str(tmp_path)]})
    assert missing_scans(with_scan_paths) == {"scannet": {"b": 3, "c": 3}, "scannetpp": {"x": 1}}


def test_missing_scans_error_names_scenes_counts_and_locations(tmp_path):
    touch_scan(tmp_path, "scannet", "a")
    roots = {"scannet": [str(tmp_path)]}
    questions = [question_about("scannet", scene, number) for scene in "abc" for number in range(3)]
    questions += [question_about("arkitscenes", f"4{number:03}") for number in range(20)]
    with_scan_paths = with_scans(questions, roots)
    with pytest.raises(SetupError) as error:
        refuse_missing(with_scan_paths, search_places(roots))
    message = str(error.value)
    for part in (
        *(
            "22 of 23 scenes",
            "26 of 29 questions",
            "4007 and 12 more",
            "--arkitscenes",
            "scannet b, c",
        ),
        *("scans/ID/ID_vh_clean_2.ply", str(tmp_path), "--allow-missing"),
    ):
        assert part in message


def test_error_without_any_scan_names_the_options(questions, tmp_path):
    with pytest.raises(SetupError) as error:
        with_scans(questions, {})
    for part in (
        "288 of 288 scenes",
        "--arkitscenes DIR, --scannet DIR, --scannetpp DIR",
        "--annotations DIR",
        "--benchmark rooms",
    ):
        assert part in str(error.value)
    with pytest.raises(SetupError, match="missing scans for 288 of 288 scenes"):
        with_scans(questions, {"scannet": [str(tmp_path)]})
    assert with_scans([], {}) == []


def test_missing_folder_is_named(questions, tmp_path):
    with pytest.raises(SetupError, match=r"--scannet .*missing"):
        with_scans(questions, {"scannet": [str(tmp_path), str(tmp_path / "missing")]})
    with pytest.raises(SetupError, match=r"--annotations .*missing"):
        with_scans(questions, {}, str(tmp_path / "missing"))


def test_annotations_replace_missing_scans(questions, tmp_path):
    folder = test_data("vsibench", "scannet_meta_info_val.json").parent
    first = next(question for question in questions if question.dataset == "scannet")
    scan = touch_scan(tmp_path, "scannet", first.scene)
    for question in with_scans(questions, {"scannet": [str(tmp_path)]}, str(folder)):
        if question.scene == first.scene:
            assert question.scan == scan
        else:
            assert question.scan == folder / f"{question.dataset}_meta_info_val.json"


def test_find_beside_prefers_mesh_over_cloud_over_splat(tmp_path):
    points, faces = room()
    (tmp_path / "a.ply").write_bytes(mesh_ply(points, faces))
    assert find_in_folder(tmp_path, "a") == tmp_path / "a.ply"
    (tmp_path / "a.ply").write_bytes(mesh_ply(points, faces[:0]))
    (tmp_path / "a.glb").write_bytes(b"glTF")
    (tmp_path / "a.compressed.ply").write_bytes(compressed_ply(random_splat()))
    (tmp_path / "a.txt").write_text("axisAlignment = 1")
    assert find_in_folder(tmp_path, "a") == tmp_path / "a.glb"
    (tmp_path / "a.glb").unlink()
    assert find_in_folder(tmp_path, "a") == tmp_path / "a.ply"
    (tmp_path / "a.ply").unlink()
    assert find_in_folder(tmp_path, "a") == tmp_path / "a.compressed.ply"
    assert find_in_folder(tmp_path, "b") is find_in_folder(tmp_path, "../a") is None


@pytest.mark.parametrize("dataset", ["scannet", "scannetpp", "arkitscenes"])
def test_an_empty_folder_is_reported_with_the_paths_that_were_tried(tmp_path, dataset):
    questions = [Question("0", "b", dataset, "scene7", "object_counting", "How many?", "number")]
    with pytest.raises(SetupError) as refused:
        with_scans(questions, {dataset: [str(tmp_path)]})
    for layout in LAYOUTS[dataset]:
        assert str(tmp_path / layout.format(id="scene7")) in str(refused.value)
    assert f"--{dataset} DIR" in str(refused.value)
