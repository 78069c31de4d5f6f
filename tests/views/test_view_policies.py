"""Views that are not chosen by the model, in the bundled rooms: what they cover and what they show."""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from conftest import mostly_slow

from render_agent.dialogue.reply import MAX_MOVE_METRES
from render_agent.options import RunConfig
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.start_pose import start_camera, surface
from render_agent.render.visibility.object_visibility import Sight
from render_agent.runs.build import build
from render_agent.scans.boxes import upright
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import vertical_from_horizontal
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.free_space.standing import CLEARANCE_METRES
from render_agent.tasks.ground_truth import known_facts, placed
from render_agent.tasks.mentions import named_categories
from render_agent.tasks.rooms import bundled
from render_agent.views.view_policies.tour import tour
from render_agent.views.view_policies.view_policy import ViewContext
from render_agent_lab.oracles.named_objects import greedy_views
from render_agent_lab.oracles.viewpoint_search import (
    CLOSE_METRES,
    TargetBox,
    ViewpointSearch,
)

SIZE = (320, 240)
QUESTIONS = bundled()
ROOMS = sorted({question.scene for question in QUESTIONS})
SMALLER = [room for room in ROOMS if room not in ("room01", "room04")]
"""Those that are quick to read."""

SCENES = SceneCache()
RENDERER = Rasteriser()
COUNT = 8


@cache
def place(room):
    question = of(room)[0]
    scene, space = SCENES.get(question), SCENES.space(question)
    field = vertical_from_horizontal(75.0, *SIZE)
    return ViewContext(
        scene, space, RENDERER, start_camera(scene, RENDERER, space, "best", field), SIZE
    )


def of(room):
    return [question for question in QUESTIONS if question.scene == room]


def policy(views, seed=0, count=COUNT):
    config = RunConfig(
        batch=True, benchmark="rooms", views=views, seed=seed, max_turns=count + 1, image_size=SIZE
    )
    return build(config).view_policy.build(config, QUESTIONS)


def patches(room, cameras):
    """Return of how many cubes of 10 cm any of the cameras shows surface."""
    here = place(room)
    frames = [(RENDERER.draw(here.scene, camera, 120, 90).depth, camera) for camera in cameras]
    points = np.concatenate([surface(depth, camera) for depth, camera in frames])
    return len(np.unique(np.floor(points / 0.1).astype(int) @ (1, 1000, 1_000_000)))


@pytest.mark.slow
def test_a_tour_covers_clearly_more_of_every_room_than_a_random_walk():
    differences = []
    for room in SMALLER:
        here, questions = place(room), of(room)
        cameras = policy("tour").further(questions[0], here).cameras
        covered = patches(room, [here.start, *cameras])
        walk = policy("random-walk")
        walks = [walk.further(question, here).cameras for question in questions[:3]]
        walked = [patches(room, [here.start, *cameras]) for cameras in walks]
        assert covered > max(walked), room
        differences.append(covered / np.mean(walked))
    error = np.std(differences, ddof=1) / math.sqrt(len(SMALLER))
    assert (
        np.mean(differences) - 2.57 * error > 1.5
    )  # 95 % by Student's t with 5 degrees of freedom


@pytest.mark.parametrize("views", ["tour", "random-walk", "oracle"])
@pytest.mark.parametrize("room", mostly_slow([ROOMS[2], ROOMS[7]], ROOMS[7]))
def test_as_many_free_and_different_views_as_the_budget_has(views, room):
    here = place(room)
    for count in (0, 1, COUNT):
        chooser = policy(views, count=count)
        for question in of(room)[:4]:
            cameras = chooser.further(question, here).cameras
            assert len(cameras) == len(set(cameras)) == count
            for camera in cameras:
                assert here.space.clearance(camera.position) > CLEARANCE_METRES - 1e-9
                assert camera.vertical_fov == here.start.vertical_fov


@pytest.mark.parametrize("views", ["tour", "random-walk", "oracle"])
def test_what_is_chosen_depends_on_nothing_that_was_chosen_before(views):
    here, questions = place(ROOMS[7]), of(ROOMS[7])[:5]
    one, other = policy(views), policy(views)
    forth = {question.id: one.further(question, here).cameras for question in questions}
    back = {question.id: other.further(question, here).cameras for question in questions[::-1]}
    assert forth == back


def test_a_walk_goes_as_far_as_a_model_may_and_is_drawn_from_seed_and_id():
    here, (first, second, *_) = place(ROOMS[3]), of(ROOMS[3])
    walk = policy("random-walk").further(first, here)
    assert not walk.shared
    way = [here.start, *walk.cameras]
    steps = [math.dist(a.position, b.position) for a, b in pairwise(way)]
    assert max(steps) <= MAX_MOVE_METRES + 1e-9
    assert sum(steps) > 1
    assert walk.cameras != policy("random-walk").further(second, here).cameras
    assert walk.cameras != policy("random-walk", seed=1).further(first, here).cameras


def test_a_tour_is_the_same_for_all_questions_of_a_scene():
    here, questions = place(ROOMS[7]), of(ROOMS[7])
    chooser = policy("tour")
    tours = [chooser.further(question, here) for question in questions]
    assert tours[0].shared
    assert all(each.cameras == tours[0].cameras for each in tours)


def test_four_look_around_the_start_and_start_and_top_have_no_further_views():
    here, question = place(ROOMS[0]), of(ROOMS[0])[0]
    yaw = here.start.yaw
    turned = policy("four").further(question, here).cameras
    assert {camera.position for camera in turned} == {here.start.position}
    assert [(camera.yaw - yaw) % 360 for camera in turned] == [90, 180, 270]
    for views in ("start", "top"):
        assert not policy(views).further(question, here).cameras


@pytest.mark.parametrize("room", mostly_slow([ROOMS[2], ROOMS[7]], ROOMS[7]))
def test_the_oracle_shows_what_is_named_well_and_from_far_enough(room):
    here = place(room)
    boxes = placed(known_facts(of(room))[room], here.scene).boxes
    names = [name for name, some in boxes.items() for _ in some]
    sight = Sight(RENDERER, here.scene, [box for some in boxes.values() for box in some], SIZE)
    oracle, walk = policy("oracle"), policy("random-walk")
    shown = {"oracle": [], "walk": []}
    asked = [question for question in of(room) if len(named_categories(question)) in (1, 2)]
    assert len(asked) >= 5
    asked = asked[:6]
    for question in asked:
        named = [n for n, name in enumerate(names) if name in named_categories(question)]
        assert named
        for name, chooser in (("oracle", oracle), ("walk", walk)):
            seen_by_view = [
                sight.look(camera, named) for camera in chooser.further(question, here).cameras
            ]
            for seen in zip(*seen_by_view, strict=True):
                good = [each for each in seen if each.well(SIZE)]
                shown[name].append(bool(good))
                if name == "oracle":
                    assert max((each.distance for each in good), default=0) >= CLOSE_METRES / 2
    assert np.mean(shown["oracle"]) >= 0.95
    assert np.mean(shown["walk"]) <= 0.8


def test_a_question_that_names_nothing_gets_the_tour():
    here = place(ROOMS[7])
    (question,) = [each for each in of(ROOMS[7]) if each.type == "room_size_estimation"][:1]
    found = policy("oracle").further(question, here)
    assert found.shared
    assert found.cameras == policy("tour").further(question, here).cameras


def test_where_there_is_one_place_only_the_camera_turns_on_the_spot():
    here = place(ROOMS[7])
    scene = replace(
        here.scene,
        points=here.scene.points * np.float32(0.12),
        bounds=here.scene.bounds * 0.12,
        floor=here.scene.floor * 0.12,
        ceiling=here.scene.ceiling * 0.12,
    )
    space = FreeSpace.of(scene)
    cramped = ViewContext(
        scene, space, RENDERER, start_camera(scene, RENDERER, space, "middle", 60.0), SIZE
    )
    cameras = tour(cramped, 30)
    assert len(cameras) == 30
    assert len(set(cameras[:24])) == len(set(cameras)) == 24
    assert {camera.position for camera in cameras} == {cramped.start.position}


def test_where_nothing_was_scanned_there_is_still_a_tour_and_a_look():
    here = place(ROOMS[7])
    few = replace(here.scene, points=here.scene.points[:3], faces=np.array([[0, 1, 2]], np.int32))
    space = FreeSpace.of(few)
    empty = ViewContext(few, space, RENDERER, here.start, SIZE)
    assert len(set(tour(empty, COUNT))) == COUNT
    box = upright(np.zeros(3), np.ones(3))
    (camera,) = greedy_views(ViewpointSearch(empty), [TargetBox("box", box, 1.0)], COUNT)
    assert camera == camera.looking_at(box.centre)


@pytest.mark.slow
def test_a_cloud_is_toured_as_its_mesh_is():
    here = place(ROOMS[7])
    cloud = replace(here.scene, faces=None)
    toured = ViewContext(cloud, here.space, RENDERER, here.start, SIZE)
    mesh, points = (patches(ROOMS[7], tour(each, COUNT)) for each in (here, toured))
    assert points > 0.9 * mesh
