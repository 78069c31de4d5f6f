"""View policies in the bundled rooms: coverage and content of their views."""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from conftest import mostly_slow
from factories.rooms import room as empty_room

from render_agent.dialogue.reply import MAX_MOVE_METRES
from render_agent.options import RunConfig
from render_agent.render.projection import pixel_points
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.runs.build import build
from render_agent.scans.boxes import upright_box
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import vertical_from_horizontal
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.free_space.standing import CLEARANCE_METRES
from render_agent.tasks.ground_truth import load_facts, place_facts
from render_agent.tasks.question_types import named_categories
from render_agent.tasks.rooms import load_bundled_rooms
from render_agent.views.view_policies.coverage import cover
from render_agent.views.view_policies.tour import tour
from render_agent.views.view_policies.view_policy import ViewContext
from render_agent.visibility.coverage import Surface
from render_agent.visibility.object_visibility import ObjectVisibility
from render_agent.visibility.start_pose import FAR_METRES, start_camera
from render_agent_lab.oracles.named_objects import greedy_views
from render_agent_lab.oracles.viewpoint_search import CLOSE_METRES, TargetBox, ViewpointSearch

SIZE = (320, 240)
QUESTIONS = load_bundled_rooms()
ROOMS = sorted({question.scene for question in QUESTIONS})
SMALLER = [room for room in ROOMS if room not in ("room01", "room04")]  # quick to load

SCENES = SceneCache()
RENDERER = Rasteriser()
COUNT = 8


@cache
def context_of(room):
    question = questions_in(room)[0]
    scene, space = SCENES.get(question), SCENES.space(question)
    field = vertical_from_horizontal(75.0, *SIZE)
    return ViewContext(
        scene, space, RENDERER, start_camera(scene, RENDERER, space, "best", field), SIZE
    )


def questions_in(room):
    return [question for question in QUESTIONS if question.scene == room]


def policy(views, seed=0, count=COUNT):
    config = RunConfig(
        batch=True, benchmark="rooms", views=views, seed=seed, max_turns=count + 1, image_size=SIZE
    )
    return build(config).view_policy.build(config, QUESTIONS)


def count_visible_cubes(room, cameras):
    """Count the 10 cm cubes of surface visible to any of the cameras."""
    context = context_of(room)
    frames = [(RENDERER.draw(context.scene, camera, 120, 90).depth, camera) for camera in cameras]
    points = np.concatenate([pixel_points(depth, camera, FAR_METRES) for depth, camera in frames])
    return len(np.unique(np.floor(points / 0.1).astype(int) @ (1, 1000, 1_000_000)))


@pytest.mark.slow
def test_tour_covers_more_than_random_walk():
    differences = []
    for room in SMALLER:
        context, questions = context_of(room), questions_in(room)
        cameras = policy("tour").additional_views(questions[0], context).cameras
        tour_count = count_visible_cubes(room, [context.start, *cameras])
        walk = policy("random-walk")
        walks = [walk.additional_views(question, context).cameras for question in questions[:3]]
        walk_counts = [count_visible_cubes(room, [context.start, *cameras]) for cameras in walks]
        assert tour_count > max(walk_counts), room
        differences.append(tour_count / np.mean(walk_counts))
    error = np.std(differences, ddof=1) / math.sqrt(len(SMALLER))
    assert np.mean(differences) - 2.57 * error > 1.5  # 95 %, Student's t with 5 degrees of freedom


@pytest.mark.parametrize("room", mostly_slow(ROOMS, ROOMS[2]))
def test_coverage_adds_surface_with_every_view_and_is_no_worse_than_a_tour(room):
    context, question = context_of(room), questions_in(room)[0]
    surface_points = Surface.of(context.scene, context.space, RENDERER)
    shares = {}
    for views in ("coverage", "tour"):
        is_seen = np.zeros(len(surface_points.points), bool)
        shares[views] = []
        for camera in (context.start, *policy(views).additional_views(question, context).cameras):
            is_seen = is_seen | surface_points.seen(
                RENDERER.draw(context.scene, camera, *SIZE), camera
            )
            shares[views].append(is_seen.mean())
    assert (np.diff(shares["coverage"]) > 0).all()
    assert (np.array(shares["coverage"]) >= shares["tour"]).all()


def test_fewer_views_of_coverage_are_the_first_of_more():
    context, question = context_of(ROOMS[7]), questions_in(ROOMS[7])[0]
    cameras = policy("coverage").additional_views(question, context).cameras
    assert policy("coverage", count=3).additional_views(question, context).cameras == cameras[:3]


def test_coverage_starts_again_when_everything_was_seen():
    """It still shows as many distinct views as requested."""
    scene = empty_room(low=(-0.6, -0.6), high=(0.6, 0.6))
    space = FreeSpace.of(scene)
    start = start_camera(scene, RENDERER, space, "best", 100.0)
    cameras = cover(ViewContext(scene, space, RENDERER, start, SIZE), 40)
    assert len({start, *cameras}) == 41


@pytest.mark.parametrize("views", ["tour", "coverage", "random-walk", "oracle"])
@pytest.mark.parametrize("room", mostly_slow([ROOMS[2], ROOMS[7]], ROOMS[7]))
def test_views_are_free_distinct_and_match_the_budget(views, room):
    context = context_of(room)
    for count in (0, 1, COUNT):
        chooser = policy(views, count=count)
        for question in questions_in(room)[:4]:
            cameras = chooser.additional_views(question, context).cameras
            assert len(cameras) == len(set(cameras)) == count
            for camera in cameras:
                assert context.space.clearance(camera.position) > CLEARANCE_METRES - 1e-9
                assert camera.vertical_fov == context.start.vertical_fov


@pytest.mark.parametrize("views", ["tour", "coverage", "random-walk", "oracle"])
def test_choice_is_stateless(views):
    context, questions = context_of(ROOMS[7]), questions_in(ROOMS[7])[:5]
    first, second = policy(views), policy(views)
    in_order = {
        question.id: first.additional_views(question, context).cameras for question in questions
    }
    in_reverse = {
        question.id: second.additional_views(question, context).cameras
        for question in questions[::-1]
    }
    assert in_order == in_reverse


def test_random_walk_respects_limits_and_depends_on_seed_and_id():
    context, (first, second, *_) = context_of(ROOMS[3]), questions_in(ROOMS[3])
    walk = policy("random-walk").additional_views(first, context)
    assert not walk.shared
    cameras = [context.start, *walk.cameras]
    steps = [math.dist(a.position, b.position) for a, b in pairwise(cameras)]
    assert max(steps) <= MAX_MOVE_METRES + 1e-9
    assert sum(steps) > 1
    assert walk.cameras != policy("random-walk").additional_views(second, context).cameras
    assert walk.cameras != policy("random-walk", seed=1).additional_views(first, context).cameras


def test_tour_is_shared_by_all_questions_of_a_scene():
    context, questions = context_of(ROOMS[7]), questions_in(ROOMS[7])
    chooser = policy("tour")
    tours = [chooser.additional_views(question, context) for question in questions]
    assert tours[0].shared
    assert all(views.cameras == tours[0].cameras for views in tours)


def test_fixed_policies():
    context, question = context_of(ROOMS[0]), questions_in(ROOMS[0])[0]
    yaw = context.start.yaw
    turned = policy("four").additional_views(question, context).cameras
    assert {camera.position for camera in turned} == {context.start.position}
    assert [(camera.yaw - yaw) % 360 for camera in turned] == [90, 180, 270]
    for views in ("start", "top"):
        assert not policy(views).additional_views(question, context).cameras


@pytest.mark.parametrize("room", mostly_slow([ROOMS[2], ROOMS[7]], ROOMS[7]))
def test_oracle_shows_named_objects_clearly(room):
    context = context_of(room)
    boxes = place_facts(load_facts(questions_in(room))[room], context.scene).boxes
    names = [name for name, group in boxes.items() for _ in group]
    visibility = ObjectVisibility(
        RENDERER, context.scene, [box for group in boxes.values() for box in group], SIZE
    )
    oracle, walk = policy("oracle"), policy("random-walk")
    results = {"oracle": [], "walk": []}
    questions = [
        question for question in questions_in(room) if len(named_categories(question)) in (1, 2)
    ]
    assert len(questions) >= 5
    questions = questions[:6]
    for question in questions:
        box_indices = [n for n, name in enumerate(names) if name in named_categories(question)]
        assert box_indices
        for name, chooser in (("oracle", oracle), ("walk", walk)):
            sightings_by_view = [
                visibility.look(camera, box_indices)
                for camera in chooser.additional_views(question, context).cameras
            ]
            for sightings in zip(*sightings_by_view, strict=True):
                clear = [sighting for sighting in sightings if sighting.is_clear(SIZE)]
                results[name].append(bool(clear))
                if name == "oracle":
                    assert (
                        max((sighting.distance for sighting in clear), default=0)
                        >= CLOSE_METRES / 2
                    )
    assert np.mean(results["oracle"]) >= 0.95
    assert np.mean(results["walk"]) <= 0.8


def test_oracle_falls_back_to_the_tour():
    context = context_of(ROOMS[7])
    (question,) = [
        candidate
        for candidate in questions_in(ROOMS[7])
        if candidate.type == "room_size_estimation"
    ][:1]
    result = policy("oracle").additional_views(question, context)
    assert result.shared
    assert result.cameras == policy("tour").additional_views(question, context).cameras


def test_with_one_place_the_camera_turns_on_the_spot():
    context = context_of(ROOMS[7])
    scene = replace(
        context.scene,
        points=context.scene.points * np.float32(0.12),
        bounds=context.scene.bounds * 0.12,
        floor=context.scene.floor * 0.12,
        ceiling=context.scene.ceiling * 0.12,
    )
    space = FreeSpace.of(scene)
    cramped_context = ViewContext(
        scene, space, RENDERER, start_camera(scene, RENDERER, space, "middle", 60.0), SIZE
    )
    cameras = tour(cramped_context, 30)
    assert len(cameras) == 30
    assert len(set(cameras[:24])) == len(set(cameras)) == 24
    assert {camera.position for camera in cameras} == {cramped_context.start.position}


def test_tour_of_empty_scan():
    context = context_of(ROOMS[7])
    scene = replace(
        context.scene, points=context.scene.points[:3], faces=np.array([[0, 1, 2]], np.int32)
    )
    space = FreeSpace.of(scene)
    empty = ViewContext(scene, space, RENDERER, context.start, SIZE)
    assert len(set(tour(empty, COUNT))) == COUNT
    box = upright_box(np.zeros(3), np.ones(3))
    (camera,) = greedy_views(ViewpointSearch(empty), [TargetBox("box", box, 1.0)], COUNT)
    assert camera == camera.looking_at(box.centre)


@pytest.mark.slow
def test_tour_of_cloud_matches_mesh():
    context = context_of(ROOMS[7])
    cloud = replace(context.scene, faces=None)
    cloud_context = ViewContext(cloud, context.space, RENDERER, context.start, SIZE)
    mesh, points = (
        count_visible_cubes(ROOMS[7], tour(view_context, COUNT))
        for view_context in (context, cloud_context)
    )
    assert points > 0.9 * mesh
