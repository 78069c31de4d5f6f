"""The witness: it knows the objects that its views have clearly shown, and guesses everything else."""

import json
from collections import Counter
from pathlib import Path

import pytest
from factories.scenes import room, write_ply

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.engines.make_engine import describe_engine
from render_agent.engines.scripted.blind_policies import ExplorerPolicy, RandomPolicy
from render_agent.options import RunConfig
from render_agent.render.around import camera_ahead
from render_agent.runs.build import make_engine
from render_agent.scans.boxes import upright_box
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import Camera, MapCamera, vertical_from_horizontal
from render_agent.scans.formats.load import load_scene
from render_agent.tasks.ground_truth import Facts, load_facts
from render_agent.tasks.rooms import load_bundled_rooms
from render_agent_lab.oracles.question_visibility import QuestionVisibility
from render_agent_lab.oracles.sighted_oracle import (
    REASON_NO_BOX,
    REASONS,
    WITNESS,
    SightedOracle,
    shown_facts,
    sighted_oracle,
)

SIZE = (160, 120)
FIELD = vertical_from_horizontal(75, *SIZE)
LAMP = upright_box((4, 0.3, 0), (4.6, 1, 0.8))
PLANT = upright_box((0.3, 3, 0), (1, 3.7, 1.2))
SOFA = upright_box((3.9, 3.1, 0), (4.7, 3.8, 0.5))
BOXES = {"lamp": [LAMP], "plant": [PLANT], "sofa": [SOFA], "box": [LAMP, PLANT, SOFA]}
START = (2.5, 2.0, 1.5)

SIDES = Question(
    "sides", "b", "d", "room", "object_rel_direction_easy",
    "If I am standing by the lamp and facing the plant, is the sofa to the left or the right of the"
    " plant?", "letter", ("A. left", "B. right"), "B", Path("room.ply"),
)  # fmt: skip
COUNT = Question(
    "count", "b", "d", "room", "object_counting", "How many box(s) are in this room?", "number",
    (), "3", Path("room.ply"),
)  # fmt: skip
SIZE_OF = Question(
    "size", "b", "d", "room", "object_size_estimation",
    "What is the length of the longest dimension (length, width, or height) of the plant, measured in"
    " centimeters?", "number", (), "120", Path("room.ply"),
)  # fmt: skip
AREA = Question(
    "area", "b", "d", "room", "room_size_estimation", "What is the size of this room?", "number",
    (), "20", Path("room.ply"),
)  # fmt: skip
ROUTE = Question(
    "route", "b", "d", "room", "route_planning",
    "You are a robot beginning at the lamp and facing the plant. You want to navigate to the plant. You"
    " will perform the following actions: 1. [please fill in] 2. Go forward until the plant. You have"
    " reached the final destination.", "letter", ("A. Turn Back", "B. Turn Left"), "B",
    Path("room.ply"),
)  # fmt: skip
FIRST = Question(
    "first", "b", "d", "room", "obj_appearance_order",
    "What will be the first-time appearance order of the following categories in the video: lamp,"
    " plant?", "letter", ("A. lamp, plant", "B. plant, lamp"), "A", Path("room.ply"),
)  # fmt: skip
UNKNOWN = Question(
    "unknown", "b", "d", "room", "object_abs_distance",
    "What is the distance between the lamp and the piano (in meters)?", "number", (), "1.0",
    Path("room.ply"),
)  # fmt: skip
QUESTIONS = [SIDES, COUNT, SIZE_OF, AREA] + [
    Question(f"other{n}", "b", "d", "far", "object_counting", "How many box(s) are in this room?",
             "number", (), str(2 + n % 5), None)
    for n in range(40)
]  # fmt: skip


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_ply(tmp_path_factory.mktemp("room") / "room.ply", *room()))


def visibility_in(scene):
    facts = {"room": Facts(Counter(box=3, lamp=1, plant=1, sofa=1), 20.0, BOXES)}
    return QuestionVisibility(SceneCache(load=lambda path, name: scene), facts, SIZE)


@pytest.fixture(scope="module")
def eyes(scene):
    visibility = visibility_in(scene)
    yield visibility
    visibility.close()


def views_of(*boxes):
    """Return views from one position, each aimed at one box."""
    camera = Camera(START, 0.0, 0.0, FIELD)
    return [
        View(n, "ego", f"{n}.png", camera.looking_at(box.centre)) for n, box in enumerate(boxes)
    ]


def test_question_is_answered_once_all_named_objects_were_seen(eyes):
    views = views_of(LAMP, PLANT, SOFA)
    away = View(3, "ego", "", Camera(START, 180.0, 0.0, FIELD))
    assert shown_facts(eyes, SIDES, []) == (False, None, 0)
    assert shown_facts(eyes, SIDES, views[:2]) == (False, None, 0)
    assert shown_facts(eyes, SIDES, [*views[1:], away]) == (False, None, 0)
    assert shown_facts(eyes, SIDES, views[::-1]) == (True, "B", 0)
    assert shown_facts(eyes, SIZE_OF, views[:1]) == (False, None, 0)
    assert shown_facts(eyes, SIZE_OF, views[1:2]) == (True, "120", 0)


def test_distant_occluded_or_mapped_objects_are_not_seen(eyes, scene):
    top = View(0, "top", "", MapCamera((2.5, 2.0), 2.0, 0.05))
    assert shown_facts(eyes, SIZE_OF, [top]) == (False, None, 0)
    behind = Camera((4.3, 3.45, 0.2), 0.0, 0.0, FIELD).looking_at(PLANT.centre)  # within the sofa
    assert shown_facts(eyes, SIZE_OF, [View(0, "ego", "", behind)]) == (False, None, 0)
    mostly_outside = Camera(START, 0.0, 0.0, FIELD).looking_at(PLANT.centre).turned(46)
    assert shown_facts(eyes, SIZE_OF, [View(0, "ego", "", mostly_outside)]) == (False, None, 0)


def test_around_view_combines_its_four_directions(eyes):
    ahead = camera_ahead(Camera(START, 20.0, -20.0, FIELD), SIZE)
    assert shown_facts(eyes, SIDES, [View(0, "around", "", ahead)]) == (True, "B", 0)


def test_counting_needs_all_objects_and_guesses_are_at_least_the_count(eyes):
    assert shown_facts(eyes, COUNT, views_of(LAMP, PLANT, SOFA)) == (True, "3", 3)
    assert shown_facts(eyes, COUNT, views_of(LAMP, PLANT, LAMP)) == (False, None, 2)
    for seed in range(30):
        policy = SightedOracle(QUESTIONS, seed, eyes, walks=False)
        views = views_of(LAMP, PLANT)
        guess = json.loads(policy.reply(request(COUNT, views)))
        assert guess["done"]
        assert float(guess["answer"]) >= 2
        blind = json.loads(policy.reply(request(COUNT, [])))["answer"]
        assert (
            blind == json.loads(RandomPolicy(QUESTIONS, seed).reply(request(COUNT, [])))["answer"]
        )
    chance = RandomPolicy(QUESTIONS, 0)
    assert {float(RandomPolicy(QUESTIONS, n).guess("count", 4)) for n in range(60)} == {4, 5, 8, 18}
    assert float(chance.guess("count", 100)) <= 18  # ignores a count above all answers


def test_room_size_needs_enough_surface_in_any_view_type(eyes):
    ahead = Camera(START, 0.0, 0.0, FIELD)
    views = [View(n, "ego", "", ahead.turned(90 * n)) for n in range(4)]
    assert shown_facts(eyes, AREA, views[:1]) == (False, None, 0)
    assert shown_facts(eyes, AREA, views[:1] * 4) == (False, None, 0)
    assert shown_facts(eyes, AREA, views) == (True, "20.0", 0)
    assert shown_facts(eyes, AREA, [View(0, "around", "", ahead)]) == (True, "20.0", 0)


def test_reason_distinguishes_unseen_from_undecidable(eyes):
    views = views_of(LAMP, PLANT)
    assert shown_facts(eyes, ROUTE, views[:1]) == (False, None, 0)
    assert shown_facts(eyes, ROUTE, views) == (True, None, 0)
    assert shown_facts(eyes, FIRST, views) == (None, None, 0)
    assert shown_facts(eyes, UNKNOWN, views) == (None, None, 0)
    policy = SightedOracle([*QUESTIONS, ROUTE, FIRST], 0, eyes, walks=False)
    for question, reason in (
        (ROUTE, REASON_NO_BOX),
        (FIRST, REASONS[None]),
        (SIDES, REASONS[False]),
    ):
        assert json.loads(policy.reply(request(question, views)))["reasoning"] == reason


def test_mirrored_room_swaps_left_and_right(scene):
    other = scene.mirrored()
    eyes = visibility_in(other)
    views = [
        View(view.number, "ego", "", view.camera.mirrored(other.mirrored_at))
        for view in views_of(LAMP, PLANT, SOFA)
    ]
    assert shown_facts(eyes, SIDES, views) == (True, "A", 0)
    assert shown_facts(eyes, SIZE_OF, views) == (True, "120", 0)
    eyes.close()


def request(question, views, turn=0, is_last_turn=False):
    return Request(question.id, turn, [], lambda file: None, views=views, is_last_turn=is_last_turn)


def test_witness_without_images_walks_like_the_explorer_and_then_guesses():
    policy, explorer = sighted_oracle(QUESTIONS, 3), ExplorerPolicy(QUESTIONS, 3)
    for question in QUESTIONS:
        for turn in range(9):
            ours = json.loads(policy.reply(request(question, [], turn, is_last_turn=turn == 8)))
            theirs = json.loads(explorer.reply(request(question, [], turn, is_last_turn=turn == 8)))
            if theirs.get("done"):
                assert ours["done"]
                assert ours["answer"] == RandomPolicy(QUESTIONS, 3).guess(question.id)
                break
            assert ours == theirs
    assert json.loads(policy.reply(request(SIDES, [], 0, is_last_turn=True)))["done"]


def test_witness_stops_walking_once_it_knows_the_answer(eyes):
    policy = SightedOracle(QUESTIONS, 0, eyes, walks=True)
    assert "done" not in json.loads(policy.reply(request(SIZE_OF, views_of(LAMP))))
    reply = json.loads(policy.reply(request(SIZE_OF, views_of(LAMP, PLANT), 1)))
    assert (reply["answer"], reply["done"]) == ("120", True)


@pytest.mark.parametrize(
    ("options", "sees", "walks"),
    [
        ({}, True, True),
        ({"image_stress": "mirrored"}, True, True),
        ({"image_stress": "black"}, False, True),
        ({"image_stress": "noise"}, False, True),
        ({"image_stress": "shuffled"}, False, True),
        ({"views": "none"}, False, False),
        ({"views": "start"}, True, False),
        ({"views": "tour", "image_stress": "black"}, False, False),
    ],
)
def test_witness_sees_only_if_the_scans_are_shown(options, sees, walks):
    questions = load_bundled_rooms()
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", model="witness", **options)
    assert WITNESS.note in describe_engine(config)["note"]
    policy = make_engine(config, questions).policy
    assert (policy.visibility is not None, policy.walks) == (sees, walks)
    if sees:
        assert policy.visibility.facts.keys() == load_facts(questions).keys()


def test_unknown_scenes_are_guessed(eyes):
    other = next(question for question in QUESTIONS if question.scene == "far")
    assert shown_facts(eyes, other, views_of(LAMP)) == (None, None, 0)
