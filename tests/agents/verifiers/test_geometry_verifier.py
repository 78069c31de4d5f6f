"""The geometry verifier: new surface and newly visible named objects in a view."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from factories.scenes import box, joined, room, write_ply

from render_agent.agents.verifiers.geometry import (
    REPEATED_VIEW_SCORE,
    GeometryVerifier,
)
from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Candidate
from render_agent.options import RunConfig
from render_agent.render.around import camera_ahead
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.runs.build import build
from render_agent.scans.boxes import upright_box
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import Camera, MapCamera, vertical_from_horizontal
from render_agent.scans.formats.load import load_scene
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.rooms import load_bundled_rooms
from render_agent.views.provider import NextViews
from render_agent.visibility.coverage import Surface

SIZE = (96, 72)
FIELD = vertical_from_horizontal(75, *SIZE)
LAMP = upright_box((4, 0.3, 0), (4.6, 1, 0.8))
PLANT = upright_box((0.3, 3, 0), (1, 3.7, 1.2))
SOFA = upright_box((3.9, 3.1, 0), (4.7, 3.8, 0.5))
FACTS = Facts(
    {"box": 3, "lamp": 1, "plant": 1}, 20.0,
    {"lamp": [LAMP], "plant": [PLANT], "box": [LAMP, PLANT, SOFA]},
)  # fmt: skip
START = Camera((2.5, 2.0, 1.5), 0.0, 0.0, FIELD)
TO_LAMP, TO_PLANT, TO_SOFA = (START.looking_at(thing.centre) for thing in (LAMP, PLANT, SOFA))
AT_WALL = Camera((2.5, 3.8, 1.5), 90.0, 0.0, FIELD)


def question_about(name, number=0, kind="object_size_estimation"):
    text = (
        f"How many {name}(s) are in this room?"
        if kind == "object_counting"
        else f"What is the length of the longest dimension (length, width, or height) of the {name},"
        " measured in centimeters?"
    )
    return Question(
        f"{name}{number}", "b", "d", "room", kind, text, "number", (), "80", Path("room.ply")
    )


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_ply(tmp_path_factory.mktemp("room") / "room.ply", *room()))


@pytest.fixture(scope="module")
def context_of(scene):
    return context_factory(scene)


def context_factory(scene):
    """Return a factory for the context of a question after some views."""
    scenes = SceneCache(load=lambda path, name: scene)

    def context(question, *views):
        state = QuestionState(question, scenes, 9)
        observation = NextViews(views, START, scenes.space(question))
        return TurnContext(state, observation, lambda file: None)

    return context


@pytest.fixture
def verifier():
    verifier = GeometryVerifier(facts={"room": FACTS}, size=SIZE)
    yield verifier
    verifier.close()


@pytest.fixture
def unnamed():
    verifier = GeometryVerifier(size=SIZE)
    yield verifier
    verifier.close()


def view(camera, kind="ego", number=0):
    return View(number, kind, f"{kind} {camera}", camera)


def candidates_to(*cameras):
    """Return candidates that lead to these poses."""
    return [candidate(number, view(camera)) for number, camera in enumerate(cameras)]


def candidate(number, view):
    return Candidate(number, "", Action(), "", START, view=view)


def scores(verifier, context, candidates):
    return list(verifier.score(context, candidates).scores[0])


def test_unseen_named_object_scores_above_a_near_wall(context_of, verifier):
    context = context_of(question_about("lamp"), view(START.turned(180)))
    verdict = verifier.score(context, candidates_to(AT_WALL, TO_LAMP, TO_PLANT))
    wall, lamp, plant = verdict.scores[0]
    assert lamp > plant + 0.5 > plant > 0 > wall
    assert "0.2 m" in verdict.reasons[0]
    assert "lamp 100%" in verdict.reasons[1]
    assert "lamp" not in verdict.reasons[2]


def test_without_boxes_new_surface_scores_above_a_near_wall(context_of, unnamed):
    context = context_of(question_about("lamp"), view(TO_PLANT))
    wall, lamp, plant, aside = scores(
        unnamed, context, candidates_to(AT_WALL, TO_LAMP, TO_PLANT, TO_PLANT.turned(30))
    )
    assert lamp > aside > 0 > wall > plant == REPEATED_VIEW_SCORE


def test_clearly_seen_objects_add_only_their_surface(context_of, verifier, unnamed):
    for question in (question_about("lamp"), question_about("plant")):
        shown = view(TO_LAMP), view(TO_PLANT)
        after = candidates_to(TO_LAMP.turned(5), TO_PLANT.turned(5), TO_SOFA)
        assert scores(verifier, context_of(question, *shown), after) == scores(
            unnamed, context_of(question, *shown), after
        )
    lamp, plant = scores(
        verifier,
        context_of(question_about("plant"), view(TO_LAMP)),
        candidates_to(TO_LAMP.turned(5), TO_PLANT),
    )
    assert plant > 1 > lamp


def test_every_box_counts_in_counting_questions(context_of, verifier):
    count = question_about("box", kind="object_counting")
    shown = view(TO_LAMP), view(TO_PLANT)
    first = verifier.score(context_of(count), candidates_to(TO_LAMP, TO_PLANT, TO_SOFA)).scores[0]
    assert all(first > 1 / 3)
    again, sofa = scores(
        verifier, context_of(count, *shown), candidates_to(TO_LAMP.turned(5), TO_SOFA)
    )
    assert sofa > 1 > 0.2 > again


def test_new_surface_equals_the_coverage_of_the_views(scene, context_of, unnamed):
    renderer = Rasteriser(1)
    context = context_of(question_about("lamp"))
    surface = Surface.of(scene, context.observation.space, renderer)

    def covered(camera):
        return surface.seen(renderer.draw(scene, camera, *SIZE), camera)

    cameras = [START.turned(50 * n, -10 * n) for n in range(1, 7)]
    before = covered(START) | covered(TO_PLANT)
    expected = [float((covered(camera) & ~before).mean()) for camera in cameras]
    assert len(set(expected)) == len(expected)
    shown = view(START), view(TO_PLANT)
    actual = scores(unnamed, context_of(question_about("lamp"), *shown), candidates_to(*cameras))
    assert actual == pytest.approx(expected, abs=1e-12)


def test_scores_do_not_depend_on_order_or_earlier_calls(context_of, verifier):
    context = context_of(question_about("plant"), view(START))
    cameras = [TO_LAMP, TO_PLANT, AT_WALL, START]
    expected = dict(zip(cameras, scores(verifier, context, candidates_to(*cameras)), strict=True))
    for order in permutations(cameras):
        other = context_of(question_about("lamp", 1), *(view(camera) for camera in order))
        verifier.score(other, candidates_to(*order))
        actual = scores(verifier, context, candidates_to(*order))
        assert actual == [expected[camera] for camera in order]


def test_around_view_covers_all_level_views(context_of, unnamed):
    around = view(camera_ahead(START, SIZE), "around")
    context = context_of(question_about("lamp"))
    ego, all_round = scores(unnamed, context, [*candidates_to(START), candidate(1, around)])
    assert all_round > 2 * ego > 0
    after = context_of(question_about("lamp"), around)
    level = [START.turned(yaw) for yaw in range(0, 360, 40)]
    assert max(scores(unnamed, after, candidates_to(*level))) < 0.03 < 0.1 < ego


def test_repeated_view_scores_lowest_and_map_scores_zero(context_of, verifier):
    shown = view(TO_PLANT)
    context = context_of(question_about("plant"), shown, view(AT_WALL))
    map_view = View(3, "top", "map", MapCamera((2.5, 2.0), 2.0, 0.05))
    outside = Camera((9.0, 9.0, 9.0), 45.0, 30.0, FIELD)
    into_the_wall = replace(AT_WALL, position=(2.5, 3.9, 1.5))
    verdict = verifier.score(
        context,
        [
            candidate(0, replace(shown, file="drawn again")),
            candidate(1, shown),
            candidate(2, map_view),
            candidate(3, view(outside)),
            candidate(4, view(into_the_wall)),
            candidate(5, None),
        ],
    )
    redrawn, same_file, top, beyond, wall, not_rendered = verdict.scores[0]
    assert redrawn == same_file == REPEATED_VIEW_SCORE < min(top, beyond, wall)
    assert top == 0
    assert max(beyond, wall) < 0
    assert np.isnan(not_rendered)
    assert all(verdict.reasons)
    assert "100%" in verdict.reasons[3]
    assert "0.1 m" in verdict.reasons[4]


def test_boxes_are_not_loaded_if_unused():
    questions = load_bundled_rooms()[:3]

    def facts(verifier="geometry", **options):
        options |= {"agent": "lookahead:2", "temperature": 1.0, "verifier": (verifier,)}
        config = RunConfig(batch=True, benchmark="rooms", engine="scripted", **options)
        (geometry,) = build(config).verifiers
        return geometry.open(config, questions).facts.keys()

    scenes = {question.scene for question in questions}
    assert facts() == facts(image_stress="mirrored") == facts(image_stress="black") == scenes
    assert not facts("geometry:unnamed")
    assert not facts(image_stress="shuffled")  # the camera moves in another scene


def test_leaving_the_room_scores_below_staying(tmp_path, unnamed):
    open_room = joined(
        box((0, 0, 0), (5, 4, 0.02), (200, 196, 188), cells=10),
        box((0, 0, 0), (0.02, 4, 2.5), (200, 196, 188), cells=10),
        box((1, 1, 0), (2, 2, 1), (40, 60, 210), cells=4),
    )
    scene = load_scene(write_ply(tmp_path / "open.ply", *open_room))
    context = context_factory(scene)(question_about("lamp"))
    outwards, inwards = (
        Camera((4.8, 2, 1.5), 0.0, 0.0, FIELD),
        Camera((4.8, 2, 1.5), 180.0, 0.0, FIELD),
    )
    out, stay = scores(unnamed, context, candidates_to(outwards, inwards))
    assert out < 0 < stay
