"""The format number of run folders is tied to the declared types of their files.

`log_format.json` has the fields of the current format. After adding a field, update it with:
python tests/runs/log/test_log_format.py
"""

import json
from copy import deepcopy
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from render_agent.dialogue.question import Question
from render_agent.dialogue.turn import Failure, Turn
from render_agent.options import RunConfig
from render_agent.runs.log.lines import SAVED_NAMES
from render_agent.runs.log.schema import FORMAT, Record, Results

SAVED = Path(__file__).with_name("log_format.json")

FILES = {
    "questions.jsonl": Question,
    "turns.jsonl": Turn,
    "turns.jsonl, an error": Failure,
    "config.json": Record,
    "results.json": Results,
}


def declared():
    """Return the types of the files as trees of JSON schemas, without class names and descriptions."""
    kinds = list(FILES.values())

    def either(kind):
        if kind is Path:
            return {"type": "string"}
        kinds.extend(own for own in get_args(kind) if own not in kinds)
        return {"anyOf": [{"$ref": own.__name__} for own in get_args(kind)]}

    count = 0
    while count < len(kinds):
        count = len(kinds)
        _, schemas = msgspec.json.schema_components(
            tuple(kinds), schema_hook=either, ref_template="{name}"
        )

    def expanded(schema):
        if isinstance(schema, list):
            return [expanded(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return expanded(schemas[schema["$ref"]])
        parts = {key: expanded(part) for key, part in schema.items() if key != "properties"}
        if "properties" in schema:
            own = schema["properties"].items()
            parts["properties"] = {name: expanded(part) for name, part in own}
        return {k: part for k, part in parts.items() if k not in ("title", "description")}

    trees = {file: expanded(schemas[kind.__name__]) for file, kind in FILES.items()}
    trees["config.json"]["properties"]["config"] = {
        "type": "object",
        "properties": {key: {} for key in sorted(RunConfig(batch=True).to_json())},
    }
    question = trees["questions.jsonl"]
    question["properties"] = {SAVED_NAMES.get(k, k): v for k, v in question["properties"].items()}
    question["required"] = [SAVED_NAMES.get(name, name) for name in question["required"]]
    return json.loads(json.dumps({"format": FORMAT, **trees}))


def differences(old, new, place):
    """Yield differences that prevent one version from reading, or make it misread, what the other wrote."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            yield f"{place}: {old} became {new}"
        return
    for key in sorted((old.keys() | new.keys()) - {"properties", "required", "anyOf"}):
        yield from differences(old.get(key), new.get(key), place)
    choices, others = old.get("anyOf", []), new.get("anyOf", [])
    if len(choices) != len(others):
        yield f"{place}: {len(choices)} kinds became {len(others)}"
    for one, other in zip(choices, others, strict=False):
        yield from differences(one, other, place)
    fields, others = old.get("properties", {}), new.get("properties", {})
    required, now = set(old.get("required", ())), set(new.get("required", ()))
    for name in sorted(fields.keys() | others.keys()):
        where = f"{place}: {name}"
        if name not in others:
            yield f"{where} is gone"
        elif name not in fields:
            if name in now:
                yield f"{where} is new and required"
        else:
            if (name in required) != (name in now):
                yield f"{where} became {'required' if name in now else 'optional'}"
            yield from differences(fields[name], others[name], where)


def test_incompatible_format_has_a_new_number():
    saved, types = json.loads(SAVED.read_text()), declared()
    if saved.pop("format") != types.pop("format"):
        pytest.fail(f"the format has changed: update {SAVED.name} with python {__file__}")
    result = [line for file in saved for line in differences(saved[file], types[file], file)]
    assert not result, (
        "raise FORMAT in runs/log/schema.py, or keep the log compatible: " + "; ".join(result)
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda turn: turn["properties"].update(more={"type": "string"}), None),
        (lambda turn: turn["properties"]["seconds"]["properties"].update(more={}), None),
        (lambda turn: turn["properties"].pop("reply"), "reply is gone"),
        (lambda turn: turn["required"].remove("reply"), "reply became optional"),
        (lambda turn: turn["required"].append("events"), "events became required"),
        (lambda turn: turn["properties"]["batch_size"].update(default=2), "batch_size: 1 became 2"),
        (lambda turn: turn["properties"]["phase"]["enum"].append("third"), "phase"),
        (
            lambda turn: turn["properties"]["views"]["items"]["properties"].pop("file"),
            "views: file is gone",
        ),
    ],
)
def test_only_added_optional_fields_are_compatible(change, found):
    before = declared()["turns.jsonl"]
    after = deepcopy(before)
    change(after)
    said = list(differences(before, after, "turns.jsonl"))
    assert len(said) == (found is not None)
    assert found is None or found in said[0]


if __name__ == "__main__":
    lines = (f'"{file}": {json.dumps(tree, sort_keys=True)}' for file, tree in declared().items())
    SAVED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
