"""The expert in runs over bundled rooms: states only what was shown, finds missing objects, handles mirroring."""

import json
import re
from dataclasses import replace
from functools import cache

import jsonschema
import numpy as np
import pytest
from factories.replies import reply_schema
from factories.runs import play, transcripts

from render_agent.dialogue.answer import canonical_answer, options_by_letter
from render_agent.engines.engine import Request
from render_agent.engines.make_engine import describe_engine
from render_agent.engines.scripted import make_scripted
from render_agent.options import RunConfig
from render_agent.render.around import around_cameras, cell_size
from render_agent.render.make_renderer import make_renderer
from render_agent.scans.camera import AnyCamera
from render_agent.scans.formats.load import load_scene
from render_agent.tasks.question_types import DIRECTION_TYPES
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent.util.safe_parse import convert
from render_agent.views.stress.mirrored import mirrored_ground_truth, names_sides
from render_agent_lab.expert.derive import question_categories, spot_of
from render_agent_lab.expert.homes import load_knowledge
from render_agent_lab.expert.policy import EXPERT, MAX_TURNS, expert
from render_agent_lab.expert.search import is_wrong_turn, wrong_turn
from render_agent_lab.oracles.sighted_oracle import oracle

pytestmark = pytest.mark.skipif(not BUNDLED.is_dir(), reason="bundled rooms not found")

SIZE = (320, 240)
SCENES = ("room01", "room05")  # a flat with several rooms, and a single room

FEW_TYPES = ("object_counting", "room_size_estimation", "object_abs_distance")

MIN_PIXELS = 10  # pixels that must change when a shown object is removed


class Run:
    """A finished run of the expert: its turns by question, with replies parsed as JSON."""

    def __init__(self, folder, **options):
        options = {"image_size": SIZE, "scene": SCENES} | options
        self.questions = {q.id: q for q in load_bundled_rooms() if q.scene in SCENES}
        config = RunConfig(batch=True, benchmark="rooms", engine="scripted", **options)
        engine = make_scripted("expert", list(self.questions.values()), 0, 64, config)
        path, self.results = play(folder, "rooms", engine, **options)
        self.turns = transcripts(path)

    def replies(self):
        """Yield every question with its turns and their replies."""
        for name, turns in self.turns.items():
            yield self.questions[name], turns, [json.loads(turn["reply"]) for turn in turns]

    def last(self):
        """Return every question with its last reply."""
        return [(question, replies[-1]) for question, _, replies in self.replies()]


@pytest.fixture(scope="module")
def free(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("free"))


def stated_positions(question, reasoning):
    """Return the positions stated per category as texts; empty if not seen yet."""
    parts = reasoning.partition(". ")[0].split("; ")
    pairs = [re.split(r" (?=[-?\d])", part, maxsplit=1) for part in parts]
    assert [name for name, _ in pairs] == list(question_categories(question))
    return {name: [] if text == "?" else text.split(", ") for name, text in pairs}


class ObjectRemover:
    """Renders views of the bundled rooms with one object removed."""

    def __init__(self):
        self.renderer = make_renderer()
        self.scenes = {name: load_scene(BUNDLED / f"{name}.ply") for name in SCENES}

    @cache  # noqa: B019 - it lives as long as the test
    def render(self, name, box, view):
        scene, (kind, camera) = self.scenes[name], view
        if box is not None:
            scene = self.remove(name, box)
        if kind != "around":
            return self.renderer.draw(scene, camera, *SIZE).colours
        cells = [
            self.renderer.draw(scene, each, *cell_size(SIZE)) for each in around_cameras(camera)
        ]
        return np.stack([cell.colours for cell in cells])

    @cache  # noqa: B019 - it lives as long as the test
    def remove(self, name, box):
        scene = self.scenes[name]
        inside = (np.abs(box.local(scene.points)) <= box.size / 2 + 0.02).all(axis=1)
        return replace(scene, faces=scene.faces[~inside[scene.faces].all(axis=1)])

    def count_changed_pixels(self, name, box, view):
        """Return how many pixels of a view change when the object is removed."""
        with_it, without = self.render(name, None, view), self.render(name, box, view)
        return int((with_it != without).any(axis=-1).sum())


@pytest.mark.slow
def test_stated_positions_are_boxes_that_a_view_has_shown(free):
    knowledge, remover = load_knowledge(list(free.questions.values())), ObjectRemover()
    num_positions = 0
    for question, turns, replies in free.replies():
        if question.type == "room_size_estimation":
            continue
        boxes, views, before = knowledge[question.scene].boxes, [], {}
        for turn, reply in zip(turns, replies, strict=True):
            views += [(view["kind"], convert(view["camera"], AnyCamera)) for view in turn["views"]]
            stated = stated_positions(question, reply["reasoning"])
            for name, spots in stated.items():
                centres = {f"{spot_of(box).x:.1f} {spot_of(box).y:.1f}": box for box in boxes[name]}
                assert set(before.get(name, ())) <= set(spots) <= set(centres)
                for spot in set(spots) - set(before.get(name, ())):
                    num_positions += 1
                    changed = (
                        remover.count_changed_pixels(question.scene, centres[spot], view)
                        for view in views
                    )
                    assert any(n >= MIN_PIXELS for n in changed), (question.id, name, spot)
            before = stated
    assert num_positions > 100


def read_answer(question, reply):
    """Return an answer given as an option's words in canonical form."""
    return canonical_answer(reply["answer"], question.answer_form, question.options)


def test_dialogues_end_with_the_ground_truth_within_the_turn_limit(free):
    assert free.results["counts"]["answered"] == len(free.questions) == 50
    lengths, schema = set(), reply_schema(("ego", "top", "around"))
    for question, turns, replies in free.replies():
        *moves, answer = replies
        assert {(move["answer"], move["done"]) for move in moves} <= {(None, False)}
        assert all(set(move) - {"reasoning", "answer", "done"} for move in moves)
        for reply in replies:
            jsonschema.validate(reply, schema)
            assert [name for name in schema["properties"] if name in reply] == list(reply)
        truth = canonical_answer(question.ground_truth, question.answer_form, question.options)
        assert (read_answer(question, answer), answer["done"]) == (truth, True)
        assert len(turns) <= MAX_TURNS
        lengths.add(len(turns))
    assert {1, 2, 3} <= lengths


def test_expert_searches_for_missing_objects_and_finds_most(tmp_path):
    run = Run(tmp_path, start="middle")  # the best start shows most objects at once
    first = sum("?" in replies[0]["reasoning"] for _, _, replies in run.replies())
    last = sum("?" in reply["reasoning"] for _, reply in run.last())
    assert first >= 15
    assert last <= first / 2


def test_expert_recovers_from_wrong_turns(free):
    num_wrong = 0
    for question, _, replies in free.replies():
        for turn, reply in enumerate(replies):
            if reply["done"] or not is_wrong_turn(question.id, 0, turn):
                continue
            num_wrong += 1
            assert wrong_turn(question.id, 0, turn).items() <= reply.items()
            assert not is_wrong_turn(question.id, 0, turn + 1)  # never twice in a row
            assert turn + 1 < len(replies)
    assert num_wrong >= 3
    samples = [is_wrong_turn(str(n), seed, 0) for n in range(1000) for seed in (0, 1)]
    assert 0.07 < np.mean(samples) < 0.13


def test_schedule_does_not_change_transcripts(free, tmp_path):
    other = Run(tmp_path, max_batched_turns=0, batch_size="3", scene=("room05",))
    assert other.turns == {name: free.turns[name] for name in other.turns}
    assert len(other.turns) == 25


@pytest.mark.slow
def test_mirrored_rooms_swap_sides_and_mirror_positions(tmp_path):
    run = Run(tmp_path, image_stress="mirrored", type=DIRECTION_TYPES)
    knowledge, flipped = load_knowledge(list(run.questions.values())), 0
    for question, reply in run.last():
        assert read_answer(question, reply) == mirrored_ground_truth(question)
        flipped += (
            names_sides(question) and mirrored_ground_truth(question) != question.ground_truth
        )
        at = load_scene(BUNDLED / f"{question.scene}.ply").mirrored().mirrored_at
        for name, spots in stated_positions(question, reply["reasoning"]).items():
            real = [box.centre[:2] for box in knowledge[question.scene].boxes[name]]
            for spot in spots:
                x, y = map(float, spot.split())
                assert min(np.abs(np.array(real) - (2 * at - x, y)).max(axis=1)) <= 0.05 + 1e-9
        if "?" not in reply["reasoning"] and not question.type.endswith("medium"):
            side = reply["reasoning"].split()[-1]
            assert reply["answer"] == side
    assert flipped >= 5


@pytest.mark.parametrize(
    "images",
    ["noise", *(pytest.param(name, marks=pytest.mark.slow) for name in ("black", "shuffled"))],
)
def test_images_without_the_room_reveal_nothing(tmp_path, images):
    run = Run(tmp_path, image_stress=images, image_size=(64, 48), type=FEW_TYPES)
    for question, reply in run.last():
        assert len(run.turns[question.id]) == 1
        names = question_categories(question) or ("room",)
        assert reply["reasoning"] == "; ".join(f"{name} ?" for name in names)


def test_without_views_there_is_no_reasoning(tmp_path):
    run = Run(tmp_path, views="none", type=FEW_TYPES)
    assert {reply["reasoning"] for _, reply in run.last()} == {""}


@pytest.mark.slow
def test_walk_shows_more_than_one_view(free, tmp_path):
    start, top = (Run(tmp_path / views, views=views) for views in ("start", "top"))
    unknown = [sum("?" in r["reasoning"] for _, r in run.last()) for run in (start, top, free)]
    assert unknown[0] > unknown[1] > unknown[2]
    sizes = [
        {q.scene: r["reasoning"] for q, r in run.last() if q.type == "room_size_estimation"}
        for run in (start, top)
    ]
    assert set(sizes[0].values()) == {"room ?"}
    for scene, reasoning in sizes[1].items():
        extents = load_knowledge(list(free.questions.values()))[scene].extents
        assert reasoning == "room " + ", ".join(f"{x:.1f} x {y:.1f}" for x, y in extents)


def test_engine_note_warns_that_scores_are_meaningless():
    config = RunConfig(batch=True, benchmark="rooms", engine="scripted", model="expert")
    assert EXPERT.note in describe_engine(config)["note"]


def test_unknown_scenes_are_answered_without_reasoning():
    questions = [replace(q, scan=None, scene="elsewhere") for q in load_bundled_rooms()[:20]]
    policy, baseline_policy = expert(questions), oracle(questions)
    for question in questions:
        request = Request(question.id, 0, [], lambda file: None)
        reply = json.loads(policy.reply(request))
        baseline = json.loads(baseline_policy.reply(request))
        assert read_answer(question, reply) == question.ground_truth
        assert (reply["reasoning"], reply["done"]) == ("", True)
        assert reply["answer"] not in options_by_letter(question.options)  # the option's words
        assert baseline["answer"]  # the oracle falls back to the most frequent answer
