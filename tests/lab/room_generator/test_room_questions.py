"""Questions about generated homes: answers recomputed from the boxes, text identical to VSI-Bench's."""

import json
import math
import re
from collections import Counter, defaultdict
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.homes import (
    build_homes,
    footprint_distance,
    free_floor,
    truths_of,
    write_own_scans,
)
from scipy.spatial import cKDTree

from render_agent import bundled_rooms
from render_agent.options import RunConfig
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
from render_agent.tasks.rooms import BUNDLED
from render_agent.tasks.rows import question_from_row
from render_agent_lab.room_generator.questions.balanced import balanced_questions
from render_agent_lab.room_generator.questions.draft import AMBIGUOUS_LABELS
from render_agent_lab.room_generator.questions.own_rooms import truth_of

TYPES = {
    "object_counting",
    "object_abs_distance",
    "object_size_estimation",
    "room_size_estimation",
    "object_rel_distance",
    "object_rel_direction_easy",
    "object_rel_direction_medium",
    "object_rel_direction_hard",
    "route_planning",
}


@pytest.fixture(scope="module")
def truths(tmp_path_factory):
    return truths_of(build_homes(tmp_path_factory))


@pytest.fixture(
    scope="module", params=mostly_slow(["generated", "own", "500 own"], "generated", "own")
)
def rooms(request):
    """The source of the questions: generated homes, or scans with nothing but boxes beside them."""
    return request.param


@pytest.fixture(scope="module")
def by_scene(rooms, truths):
    """The exact ground truth by scene; make-questions knows only its boxes in own rooms."""
    if rooms == "generated":
        return {truth.scene: truth for truth in truths.values()}
    scenes = ("room01", "room06") if rooms == "own" else bundled_rooms()
    return {scene: read_ground_truth(BUNDLED / f"{scene}.json") for scene in scenes}


@pytest.fixture(scope="module")
def rows(rooms, by_scene, tmp_path_factory):
    if rooms == "generated":
        return balanced_questions(list(by_scene.values()), 3, 3)
    scans = write_own_scans(tmp_path_factory.mktemp("own"), by_scene)
    own_truths = [truth_of(scan, RunConfig(batch=True)) for scan in scans]
    own_rows = balanced_questions(own_truths, 3, 10)
    assert len(own_rows) >= (100 if rooms == "own" else 500)
    return own_rows


def of_type(rows, kind, at_least=5):
    selected = [row for row in rows if row["question_type"] == kind]
    assert len(selected) >= at_least, kind
    return selected


def correct_option(row):
    return {option[0]: option[3:] for option in row["options"]}[row["ground_truth"]]


def find(truth, label):
    (thing,) = [thing for thing in truth.objects if thing.label == label]
    return thing


def surface(thing, count=15):
    """Return points spread over the surface of a box, including corners and edges, (n, 3)."""
    u = np.linspace(-0.5, 0.5, count)
    grid = np.stack(np.meshgrid(u, u, u), -1).reshape(-1, 3)
    grid = grid[np.abs(grid).max(1) > 0.499]
    return thing.centre + (grid * thing.size) @ thing.axes


@cache
def samples(thing):
    return cKDTree(surface(thing))


@cache
def distance(first, second):
    return samples(first).query(samples(second).data)[0].min()


def angle(stand, face, target):
    """Return degrees from straight ahead, positive to the left, computed independently of the code."""
    ahead = math.atan2(*(face.centre - stand.centre)[1::-1])
    there = math.atan2(*(target.centre - stand.centre)[1::-1])
    return (math.degrees(there - ahead) + 180) % 360 - 180


def test_all_types_but_appearance_order_are_asked(rows, rooms):
    needs_a_plan = set() if rooms == "generated" else {"room_size_estimation"}
    assert {row["question_type"] for row in rows} == TYPES - needs_a_plan


def test_rows_have_the_benchmark_format(rows):
    real = json.loads(test_data("vsibench", "test.jsonl").read_text("utf-8").splitlines()[0])
    for row in rows:
        assert row.keys() == real.keys() - {"pruned", "id"}
        numbered = {"id": 0, **row}
        assert question_from_row(numbered, "rooms", None).ground_truth == row["ground_truth"]


def test_questions_are_deterministic(truths):
    homes = list(truths.values())[:2]
    repeated = balanced_questions(homes, 3, 3)
    assert repeated == balanced_questions([*truths.values()], 3, 3)[: len(repeated)]
    assert balanced_questions(homes, 4, 3) != repeated


def test_questions_are_not_repeated(rows):
    questions = [(row["scene_name"], row["question"]) for row in rows]
    assert len(set(questions)) == len(questions)


def test_counts_match_the_boxes(rows, by_scene):
    for row in of_type(rows, "object_counting"):
        label = re.fullmatch(r"How many (.+)\(s\) are in this room\?", row["question"])[1]
        count = sum(thing.label == label for thing in by_scene[row["scene_name"]].objects)
        assert count == int(row["ground_truth"]) >= 2


def test_sizes_are_the_longest_box_edge(rows, by_scene):
    for row in of_type(rows, "object_size_estimation"):
        label = re.search(r"height\) of the (.+), measured", row["question"])[1]
        corners = find(by_scene[row["scene_name"]], label).box.corners
        edges = np.linalg.norm(corners[[1, 2, 4]] - corners[0], axis=1)
        assert abs(float(row["ground_truth"]) - 100 * edges.max()) <= 0.51


def test_room_sizes_are_the_floor_area(rows, by_scene):
    for row in [row for row in rows if row["question_type"] == "room_size_estimation"]:
        area = 0.0
        for room in by_scene[row["scene_name"]].rooms:
            for (ax, ay), (bx, by) in zip(room.corners, np.roll(room.corners, -1, 0), strict=True):
                area += (ax * by - bx * ay) / 2
        assert abs(float(row["ground_truth"]) - area) <= 0.0501


def test_distances_are_between_the_closest_points(rows, by_scene):
    for row in of_type(rows, "object_abs_distance"):
        names = re.search(r"between the (.+) and the (.+) \(in meters\)", row["question"]).groups()
        metres = distance(*(find(by_scene[row["scene_name"]], name) for name in names))
        # Samples are up to half their spacing away from the closest points.
        assert -0.1 < float(row["ground_truth"]) - metres < 0.06
        assert float(row["ground_truth"]) >= 0.4


def test_nearest_of_four_is_correct(rows, by_scene):
    for row in of_type(rows, "object_rel_distance"):
        truth = by_scene[row["scene_name"]]
        listed, target = re.search(
            r"\((.+)\) is the closest to the (.+)\?", row["question"]
        ).groups()
        texts = [option[3:] for option in row["options"]]
        assert listed == ", ".join(texts)
        assert len(set(texts)) == 4
        near = {
            text: min(
                distance(find(truth, target), thing)
                for thing in truth.objects
                if thing.label == text
            )
            for text in texts
        }
        assert min(near, key=near.get) == correct_option(row)
        assert min(np.diff(sorted(near.values()))) > 0.1


@pytest.mark.parametrize("kind", ["easy", "medium", "hard"])
def test_directions_follow_from_the_boxes(rows, by_scene, kind):
    for row in of_type(rows, f"object_rel_direction_{kind}"):
        names = re.match(
            r"If I am standing by the (.+) and facing the (.+), is the (.+) to (?:the left|my)",
            row["question"],
        ).groups()
        things = [find(by_scene[row["scene_name"]], name) for name in names]
        turn = angle(*things)
        across = "left" if turn > 0 else "right"
        if kind == "hard":
            expected = f"{'front' if abs(turn) < 90 else 'back'}-{across}"
            assert min(abs(turn), abs(abs(turn) - 90), 180 - abs(turn)) >= 15
        elif kind == "medium" and abs(turn) >= 135:
            expected = "back"
            assert abs(turn) >= 150
        else:
            expected = across
            assert 15 <= abs(turn) <= 120
        assert correct_option(row) == expected
        for first, second in combinations(things, 2):
            assert distance(first, second) >= 0.29


@pytest.fixture(scope="module")
def routes(rows, by_scene):
    """Return every route: its row, the ground truth of its home, its start, facing object and steps."""
    routes = []
    for row in of_type(rows, "route_planning"):
        text = row["question"]
        start, facing, goal = re.match(
            r"You are a robot beginning at the (.+) and facing the (.+?)\. You want to navigate to"
            r" the (.+?)\. You will",
            text,
        ).groups()
        steps = re.split(r" ?\d\. ", text[text.index("): 1. ") + 2 : text.index(". You have")])[1:]
        assert steps[-1] == f"Go forward until the {goal}"
        routes.append((row, by_scene[row["scene_name"]], start, facing, steps))
    return routes


def waypoints(truth, steps):
    """Return the objects walked up to, in order."""
    return [find(truth, step[21:]) for step in steps if step.startswith("Go forward until the ")]


def test_turns_of_routes_follow_from_the_boxes(routes):
    for row, truth, start, facing, steps in routes:
        place = find(truth, start).centre
        before, turns = find(truth, facing).centre - place, []
        onward = iter(waypoints(truth, steps))
        for number, step in enumerate(steps):
            if step == "[please fill in]":
                continue
            way = next(onward).centre - place
            cross = before[0] * way[1] - before[1] * way[0]
            turn = math.degrees(math.atan2(cross, before[:2] @ way[:2]))
            if number and steps[number - 1] == "[please fill in]":
                assert abs(turn) >= 152 or 58 <= abs(turn) <= 122
                turns.append("Back" if abs(turn) >= 152 else "Left" if turn > 0 else "Right")
            else:
                assert abs(turn) < 1e-6  # straight on only towards the faced object
            place, before = place + way, way
        assert correct_option(row) == ", ".join(f"Turn {turn}" for turn in turns)
        assert len(set(row["options"])) == len(row["options"]) == (3 if len(turns) == 1 else 4)


def test_routes_can_be_walked(routes):
    """From some free position next to the start, every leg leads straight to its object."""
    for _, truth, start, _, steps in routes:
        centres, free = free_floor(truth)
        distances = footprint_distance(find(truth, start), centres.reshape(-1, 2))
        places = list(centres[free & (distances.reshape(free.shape) <= 0.4)])
        for goal in waypoints(truth, steps):
            ends = [walk(centres, free, place, goal) for place in places]
            places = [end for end in ends if footprint_distance(goal, end[None])[0] <= 0.4]
        assert places, (truth.scene, start, steps)


def walk(centres, free, place, goal):
    """Return the end of a straight walk towards the centre of an object."""
    way = goal.centre[:2] - place
    shares = np.arange(0, 1, 0.025 / np.linalg.norm(way))
    ahead = place + shares[:, None] * way
    is_free = free[*np.round((ahead - centres[0, 0]) / 0.05).astype(int).T]
    blocked = np.flatnonzero(~is_free)
    count = blocked[0] if len(blocked) else len(ahead)
    return ahead[count - 1] if count else place


def test_only_unambiguous_labels_are_named(rows, by_scene):
    for row in rows:
        truth = by_scene[row["scene_name"]]
        for label, others in AMBIGUOUS_LABELS.items():
            if others & truth.counts.keys():
                pattern = rf"\b(the|How many|\(|,) ?{label}\b(?! light)"
                assert not re.search(pattern, row["question"]), row["question"]
        assert not re.search(r"\bthe (wall|floor|ceiling)\b(?! light)", row["question"])


def test_answers_and_letters_are_balanced(rows):
    letters, answers = defaultdict(Counter), defaultdict(Counter)
    for row in rows:
        if row["options"]:
            kind = row["question_type"], len(row["options"])
            letters[kind][row["ground_truth"]] += 1
            if "direction" in kind[0]:
                answers[kind][correct_option(row)] += 1
    for kind, counter in letters.items():
        counts = [counter[chr(65 + index)] for index in range(kind[1])]
        assert max(counts) - min(counts) <= 1, (kind, counter)
    for kind, counter in answers.items():
        assert len(counter) == kind[1]
        assert max(counter.values()) - min(counter.values()) <= 2, (kind, counter)


def without_names(row):
    """Return the question without object names; for a route, the sentences around its steps."""
    text = row["question"]
    if row["question_type"] == "route_planning":
        names = (
            r"(You are a robot beginning at the ).+?( and facing the ).+?"
            r"(\. You want to navigate to the ).+?(\. You will perform .+'turn right\.'\): 1\. )"
            r".+(\. You have reached the final destination\.)"
        )
        match = re.fullmatch(names, text)
        return match and "X".join(match.groups())
    for pattern in (
        r"(How many ).+(\(s\) are)",
        r"(height\) of the ).+(, measured)",
        r"(between the ).+( and the ).+( \(in)",
        r"(objects \().+(\) is the closest to the ).+(\?)",
        r"(standing by the ).+( and facing the ).+(, is the ).+?( to (?:the left|my))",
        r"(the left or the right of the ).+(\?)",
    ):
        if match := re.search(pattern, text):
            text = text.replace(match[0], "X".join(match.groups()))
    return text


def test_wording_matches_the_benchmark(rows):
    wordings = defaultdict(set)
    for line in test_data("vsibench", "test.jsonl").read_text("utf-8").splitlines():
        real = json.loads(line)
        wordings[real["question_type"]].add(without_names(real))
    for row in rows:
        assert without_names(row), row["question"]
        assert without_names(row) in wordings[row["question_type"]], row["question"]
