"""What is fed: every kind of file or answer that comes from outside, read as the program reads it.

A target ends normally, or by one of the package's own errors; anything else is a failure.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import fuzz_http
import fuzz_runs
import fuzz_seeds as made
import numpy as np


def _nothing(folder: Path) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Target:
    """One kind of input. form: see fuzz_trees. seeds: give valid ones. run: reads one in a folder of its
    own. prepare: puts into that folder what lies beside every input."""

    name: str
    form: str
    seeds: Callable[[], tuple[bytes, ...]]
    run: Callable[[bytes, Path], None]
    prepare: Callable[[Path], None] = _nothing


def scan(suffix: str) -> Callable[[bytes, Path], None]:
    """Return what reads a scan whose file has this ending."""

    def run(data: bytes, folder: Path) -> None:
        from render_agent.scene.formats.load import load_scene

        path = folder / f"scan.{suffix}"
        path.write_bytes(data)
        scene = load_scene(path)
        assert len(scene.points)
        assert np.isfinite(scene.points).all()
        assert np.isfinite([scene.floor, scene.ceiling, *scene.bounds.ravel()]).all()
        assert (scene.bounds[0] <= scene.bounds[1]).all()
        assert scene.colours.shape == scene.points.shape
        if scene.gaussians is not None:
            assert len(scene.gaussians.scales) == len(scene.points)
            assert all(np.isfinite(part).all() for part in scene.gaussians.arrays)
        if scene.faces is not None:
            assert 0 <= scene.faces.min() <= scene.faces.max() < len(scene.points)

    return run


SCANNET = "scene0011_00_vh_clean_2.ply"


def beside_a_scan(folder: Path) -> None:
    """Put a mesh of ScanNet's into the folder."""
    (folder / SCANNET).write_bytes(made.scans("ply")[0])


def alignment(data: bytes, folder: Path) -> None:
    """Read the alignment beside a mesh of ScanNet's."""
    from render_agent.scene.formats.load import load_scene

    (folder / "scene0011_00.txt").write_bytes(data)
    scene = load_scene(folder / SCANNET)
    assert np.isfinite(scene.points).all()


def beside_an_obj(folder: Path) -> None:
    """Put what a textured OBJ names into the folder, and one."""
    for name, content in made.beside_an_obj().items():
        (folder / name).write_bytes(content)
    (folder / "room.obj").write_bytes(made.scans("obj")[-1])


def materials(data: bytes, folder: Path) -> None:
    """Read the materials beside an OBJ."""
    from render_agent.scene.formats.load import load_scene

    (folder / "material.mtl").write_bytes(data)
    scene = load_scene(folder / "room.obj")
    assert scene.colours.shape == scene.points.shape


def questions(suffix: str) -> Callable[[bytes, Path], None]:
    """Return what reads a file of questions with this ending, and whatever is made of questions."""

    def run(data: bytes, folder: Path) -> None:
        from render_agent.questions.chance import chance_levels
        from render_agent.questions.mentions import named_categories
        from render_agent.questions.rows import load_rows
        from render_agent.questions.scans import LAYOUTS, find_scan
        from render_agent.questions.vsibench import with_pruned
        from render_agent.runs.log.lines import question_from_json, question_to_json
        from render_agent.text.safe_parse import encode

        path = folder / f"questions.{suffix}"
        path.write_bytes(data)
        found = load_rows(path, "vsibench")
        roots = {name: [str(folder)] for name in LAYOUTS}
        for question in found:
            line = encode(question_to_json(question))
            kept = question_from_json(json.loads(line))
            assert kept.id == question.id
            assert len(line.splitlines()) == 1
            assert find_scan(question.dataset, question.scene, roots) is None
            named_categories(question)
        json.dumps(chance_levels(found), allow_nan=False)
        assert with_pruned(found, path, None) == found

    return run


def ids(data: bytes, folder: Path) -> None:
    """Read a file of ids."""
    from render_agent.questions.vsibench import read_ids

    path = folder / "ids.txt"
    path.write_bytes(data)
    assert read_ids(path)


def reply(data: bytes, folder: Path) -> None:
    """Read a reply as a model's, a judge's, and as one that rewords a question."""
    from render_agent.agents.rephrase import read_wordings
    from render_agent.agents.verifiers.judge.batch_score import read_criteria
    from render_agent.agents.verifiers.judge.rubric import load_rubric
    from render_agent.dialogue.chat import assistant
    from render_agent.dialogue.reply import Action, Malformed, ReadReply, read
    from render_agent.engines.base import Reply
    from render_agent.text.safe_parse import convert, plain

    text = data.decode("utf-8", "surrogateescape")  # halves of characters, as JSON may hold them
    options = ("A. left", "B. right")
    for wanted, choices in (("letter", options), ("number", ()), ("text", ())):
        action = read(text, wanted, choices)
        assert isinstance(action, Action | Malformed)
        kept = json.loads(json.dumps(plain(action), allow_nan=False).encode())
        assert convert(kept, ReadReply) == action
    json.dumps(assistant(text), ensure_ascii=False).encode()
    rubric = load_rubric("view")
    with suppress(ValueError):
        found = read_criteria(Reply((text,)), rubric)
        assert all(0 <= each.value <= 1 for each in found.values())
    assert len(read_wordings(text, "How many chairs?", 3)) <= 3


def config(data: bytes, folder: Path) -> None:
    """Read a file of options as the command line does."""
    from render_agent.cli.main import cli
    from render_agent.config import OPTIONS, RunConfig
    from render_agent.engines.engine_options import engine_options
    from render_agent.render.start_pose import parse_start

    path = folder / "options.yaml"
    path.write_bytes(data)
    context = cli.make_context("render-agent", ["--config", str(path)])
    given = {k: v for k, v in context.params.items() if k in OPTIONS}
    found = RunConfig(**given).absolute()
    kept = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert RunConfig.from_json(kept) == found
    parse_start(found.start)
    engine_options(found.engine_option)
    assert found.verifiers is not None


def sweep(data: bytes, folder: Path) -> None:
    """Read a file of a sweep."""
    from render_agent.analysis.sweep.plan import read_sweep

    path = folder / "sweep.yaml"
    path.write_bytes(data)
    assert read_sweep(path, {}, folder).rows


def rubric(data: bytes, folder: Path) -> None:
    """Read a rubric."""
    from render_agent.agents.verifiers.judge.rubric import load_rubric

    file = folder / "rubric.yaml"
    file.write_bytes(data)
    assert load_rubric(str(file)).name is not None


def replies(suffix: str) -> Callable[[bytes, Path], None]:
    """Return what reads a file of replies with this ending."""

    def run(data: bytes, folder: Path) -> None:
        from render_agent.engines.scripted.registry import read_replies

        path = folder / f"replies.{suffix}"
        path.write_bytes(data)
        for texts in read_replies(path).values():
            assert all(isinstance(text, str) for text in texts)

    return run


def predictions(data: bytes, folder: Path) -> None:
    """Read and score a file of predictions, by every parser."""
    from render_agent.analysis.predictions import read_predictions, score_predictions
    from render_agent.questions.rows import question_from_row
    from render_agent.score.parsers import PARSERS
    from render_agent.score.tables import score_table

    path = folder / "predictions.jsonl"
    path.write_bytes(data)
    asked = [question_from_row(row, "vsibench", None) for row in made.ROWS]
    given = read_predictions(path, asked)
    for parser in PARSERS:
        found = score_predictions(asked, given, parser)
        json.dumps(found, allow_nan=False)
        score_table(found)


def annotations(data: bytes, folder: Path) -> None:
    """Read annotations and build the rooms that they describe."""
    from render_agent.scene.stand_in.annotated_room import annotated_scene
    from render_agent.scene.stand_in.annotations import read_annotations

    path = folder / "scannet_meta_info_val.json"
    path.write_bytes(data)
    for found in read_annotations(path).values():
        scene = annotated_scene(found, path)
        assert np.isfinite(scene.points).all()
        assert np.isfinite([scene.floor, scene.ceiling, *scene.bounds.ravel()]).all()


def truth(data: bytes, folder: Path) -> None:
    """Read the labelled boxes beside a scan, and what is known by them."""
    from render_agent.questions.ground_truth import known_facts
    from render_agent.questions.rows import question_from_row

    scan_file = folder / "room.ply"
    scan_file.with_suffix(".json").write_bytes(data)
    asked = [question_from_row(made.ROWS[2], "rooms", scan_file)]
    for facts in known_facts(asked).values():
        assert np.isfinite(facts.room_size)
        for boxes in facts.boxes.values():
            assert all(np.isfinite(box.corners).all() for box in boxes)


def other_benchmark(name: str) -> Callable[[bytes, Path], None]:
    """Return what reads the file of a benchmark that is not VSI-Bench."""

    def run(data: bytes, folder: Path) -> None:
        from render_agent.questions import scan_benchmarks
        from render_agent.text.sanitize import is_plain

        path = folder / "v1_questions_test.json"
        for place in (path, folder / "v1_sqa_annotations_test.json"):
            place.write_bytes(data)
        for asked in getattr(scan_benchmarks, f"read_{name}")(path):
            assert all(map(is_plain, (asked.id, asked.scene, asked.type)))
            assert all(
                isinstance(text, str) for text in (asked.text, asked.truth or "", *asked.answers)
            )
            json.dumps(asked.text)

    return run


PREDICTIONS = (
    made.json_lines(
        [
            {"id": 0, "prediction": "3"},
            {"id": "1", "prediction": "B"},
            {"id": 2, "prediction": None},
            {"id": 3, "prediction": "1.4 m"},
        ]
    ),
)

REPLY_ROWS = ({"id": 0, "replies": ["{}", {"answer": 3, "done": True}]}, {"id": "*", "replies": []})

TARGETS = {
    target.name: target
    for target in (
        Target("ply", "text", lambda: made.scans("ply"), scan("ply")),
        Target("splat", "text", made.splats, scan("splat")),
        Target("splat ply", "text", made.splat_plys, scan("ply")),
        Target("glb", "glb", lambda: made.scans("glb"), scan("glb")),
        Target("gltf", "json", lambda: made.scans("gltf"), scan("gltf")),
        Target("obj", "text", lambda: made.scans("obj"), scan("obj"), beside_an_obj),
        Target(
            "mtl", "text", lambda: (made.beside_an_obj()["material.mtl"],), materials, beside_an_obj
        ),
        Target("stl", "text", lambda: made.scans("stl"), scan("stl")),
        Target("off", "text", lambda: made.scans("off"), scan("off")),
        Target("las", "bytes", lambda: made.scans("las"), scan("las")),
        Target("laz", "bytes", lambda: made.scans("laz"), scan("laz")),
        Target("e57", "bytes", lambda: made.scans("e57"), scan("e57")),
        Target("pcd", "text", lambda: made.scans("pcd"), scan("pcd")),
        Target("columns", "text", lambda: made.scans("txt"), scan("txt")),
        Target("usd", "text", lambda: made.scans("usd"), scan("usd")),
        Target("alignment", "text", lambda: (made.ALIGNED.encode(),), alignment, beside_a_scan),
        Target("questions.jsonl", "jsonl", lambda: made.questions("jsonl"), questions("jsonl")),
        Target("questions.json", "json", lambda: made.questions("json"), questions("json")),
        Target("questions.tsv", "text", lambda: made.questions("tsv"), questions("tsv")),
        Target(
            "questions.parquet", "bytes", lambda: made.questions("parquet"), questions("parquet")
        ),
        *(
            Target(
                name, "json", lambda file=file: (json.dumps(file).encode(),), other_benchmark(name)
            )
            for name, file in made.OTHER_BENCHMARKS.items()
        ),
        Target("ids", "text", lambda: (b"0\n1\n2\n",), ids),
        Target("reply", "object", lambda: tuple(map(str.encode, made.REPLIES)), reply),
        Target("config", "yaml", lambda: tuple(map(str.encode, made.CONFIGS)), config),
        Target("sweep", "yaml", lambda: tuple(map(str.encode, made.SWEEPS)), sweep),
        Target("rubric", "yaml", lambda: (made.rubric(),), rubric),
        Target(
            "replies.jsonl", "jsonl", lambda: (made.json_lines([*REPLY_ROWS]),), replies("jsonl")
        ),
        Target("replies.json", "json", lambda: (json.dumps(REPLY_ROWS).encode(),), replies("json")),
        Target("predictions", "jsonl", lambda: PREDICTIONS, predictions),
        Target(
            "annotations", "json", lambda: (json.dumps(made.ANNOTATIONS).encode(),), annotations
        ),
        Target("truth", "json", lambda: (json.dumps(made.TRUTH).encode(),), truth),
        Target("http chat", "http", lambda: made.CHATS, fuzz_http.chat),
        Target("http models", "http", lambda: made.MODELS, fuzz_http.models),
        *(
            Target(
                f"run {name}",
                form,
                lambda name=name: fuzz_runs.seeds(name),
                fuzz_runs.reader(name),
                fuzz_runs.prepare,
            )
            for name, form in fuzz_runs.FILES.items()
        ),
    )
}
"""The targets by name."""
