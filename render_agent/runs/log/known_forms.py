"""The forms of what a run folder holds, so that a file that somebody edited is refused by its name."""

from __future__ import annotations

from render_agent.runs.log.work import COUNTED
from render_agent.system.contained_paths import is_path, is_picture
from render_agent.text.forms import COUNT, FINITE, Accepted, Each, Either, Form, Number, OneOf

SCORE = Either((None, Number()))
TEXT = Either((None, str))
SCAN = Either((None, Accepted(is_path, "path of a file")))
PICTURE = Accepted(is_picture, "picture of a run")
BOUNDS = Either((None, (SCORE, SCORE)))

RECORD: Form = {
    "fingerprint": str,
    "config": Each(object),
    "engine": {"name": str, "model": TEXT, "note?": TEXT},
    "program": str,
    "commit?": TEXT,
    "choosing?": {"note?": TEXT},
    "notes?": [str],
    "sha256": {
        "questions": Each(str),
        "scans": Each(TEXT),
        "annotations?": Each(str),
        "verifiers?": Each(str),
    },
}
"""`config.json`; the options in it are read by `RunConfig.from_json`."""

QUESTION: Form = {
    "id": str,
    "benchmark": str,
    "dataset": str,
    "scene": str,
    "type": str,
    "question": str,
    "wanted": OneOf(("letter", "number", "text")),
    "options": [str],
    "truth": TEXT,
    "scan": SCAN,
    "pruned?": Either((None, bool)),
}
"""A line of `questions.jsonl`."""

CAMERA: Form = {
    "position": (Number(), Number(), Number()),
    "yaw": Number(),
    "pitch": Number(-90, 90),
    "vertical_fov": Number(0.1, 179.9),
}
MAP_CAMERA: Form = {
    "centre": (Number(), Number()),
    "height": Number(),
    "metres_per_pixel": Number(1e-9),
}
VIEW: Form = {"number": COUNT, "kind": str, "file": PICTURE, "camera": Either((MAP_CAMERA, CAMERA))}
MESSAGE: Form = {
    "role": str,
    "content": [
        Either(
            (
                {"type": OneOf(("text",)), "text": str},
                {"type": OneOf(("image",)), "image": PICTURE},
            )
        )
    ],
}
ACTION: Form = Either(
    (
        {"malformed": str, "answer_text?": str},
        {
            "rotation?": FINITE,
            "pitch?": FINITE,
            "forward?": FINITE,
            "left?": FINITE,
            "up?": FINITE,
            "look_at?": (FINITE, FINITE, FINITE),
            "view?": Either((str, COUNT)),
            "answer?": str,
            "answer_text?": str,
            "done?": bool,
            "reasoning?": str,
            "notes?": [str],
        },
    )
)
TOKENS: Form = {"in": COUNT, "out": COUNT, "from_cache": COUNT}

CANDIDATE: Form = {
    "number": COUNT,
    "reply": str,
    "action": ACTION,
    "happened": str,
    "camera": CAMERA,
    "view": Either((None, VIEW)),
    "group": COUNT,
    "follows": Either((None, COUNT)),
}
EVIDENCE: Form = {
    "agent": str,
    "chosen": COUNT,
    "candidates": [CANDIDATE],
    "weighed": [COUNT],
    "judgements": [
        {"verifier": str, "members": [str], "scores": [[SCORE]], "reasons": [str]},
    ],
    "fused": [Number()],
    "ballot": Either(
        (
            None,
            {
                "votes": [TEXT],
                "winner": str,
                "agreement": Number(0, 1),
                "expected": FINITE,
                "spread?": Either((None, FINITE)),
            },
        )
    ),
    "wordings": [str],
    "tokens": TOKENS,
    "calls": Number(0),
}
TURN: Form = {
    "question_id": str,
    "turn": COUNT,
    "phase": OneOf(("batched", "finishing")),
    "views": [VIEW],
    "messages": [MESSAGE],
    "reply": str,
    "action": ACTION,
    "happened": str,
    "stood": CAMERA,
    "camera": CAMERA,
    "tokens": TOKENS,
    "seconds": {"rendering": Number(0), "waiting": Number(0), "generating": Number(0)},
    "batch_size": Number(1, 1e15, whole=True),
    "finish": OneOf(("stop", "length")),
    "events?": [str],
    "evidence?": Either((None, EVIDENCE)),
    "error": None,
}
STOPPED: Form = {
    "question_id": str,
    "turn": COUNT,
    "phase": OneOf(("batched", "finishing")),
    "events?": [str],
    "error": str,
}
"""Lines of `turns.jsonl`: a turn, and the error that stopped a question."""

PART: Form = {
    "n": COUNT,
    "without_order": SCORE,
    "micro": SCORE,
    "mean_of_types": SCORE,
    "tasks": Each(SCORE),
    "types": Each({"score": SCORE, "n": COUNT}),
    "intervals": Each(BOUNDS),
}
OVERALL: Form = {**PART, "official": SCORE}
WORK: Form = {**dict.fromkeys(COUNTED, Number(0)), "calls?": Number(0)}
TURNED: Form = {"share": SCORE, "interval": BOUNDS}

RESULTS: Form = {
    **OVERALL,
    "status": str,
    "notes": [str],
    "parser": OneOf(("official",)),
    "datasets": Each(OVERALL),
    "debiased": Either((None, OVERALL)),
    "official_over_scored": {"score": SCORE, "n": COUNT},
    "official_missing_as_zero": SCORE,
    "official_raw?": SCORE,
    "parsers": Each({"macro": SCORE, "micro": SCORE}),
    "chance": {"random": Each(SCORE), "frequency": Each(SCORE)},
    "counts": {
        **dict.fromkeys(("active", "answered", "exhausted", "failed", "missing"), COUNT),
        **dict.fromkeys(("questions", "repairs", "repaired"), COUNT),
    },
    "mirrored?": {
        "n": COUNT,
        "mirrored": PART,
        "original": PART,
        "turned": {"n": COUNT, "mirrored": TURNED, "original": TURNED},
    },
    "totals": {
        "turns": COUNT,
        "calls": COUNT,
        "renders": COUNT,
        "tokens": TOKENS,
        "seconds": Each(Number(0)),
        "per_question?": Either((None, WORK)),
    },
    "questions": [
        {
            "question_id": str,
            "type": str,
            "dataset": str,
            "scene": str,
            "status": str,
            "answer_text": TEXT,
            "answer": TEXT,
            "truth": TEXT,
            "score": SCORE,
            "turns": COUNT,
            "renders?": COUNT,
            "tokens_in?": COUNT,
            "tokens_out?": COUNT,
        }
    ],
}
"""`results.json`."""
