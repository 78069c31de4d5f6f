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


def declared_schemas():
    """Return the types of the files as trees of JSON schemas, without class names and descriptions."""
    kinds = list(FILES.values())

    def any_of(kind):
        if kind is Path:
            return {"type": "string"}
        kinds.extend(member for member in get_args(kind) if member not in kinds)
        return {"anyOf": [{"$ref": member.__name__} for member in get_args(kind)]}

    count = 0
    while count < len(kinds):
        count = len(kinds)
        _, schemas = msgspec.json.schema_components(
            tuple(kinds), schema_hook=any_of, ref_template="{name}"
        )

    def expand(schema):
        if isinstance(schema, list):
            return [expand(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return expand(schemas[schema["$ref"]])
        parts = {key: expand(part) for key, part in schema.items() if key != "properties"}
        if "properties" in schema:
            member = schema["properties"].items()
            parts["properties"] = {name: expand(part) for name, part in member}
        return {k: part for k, part in parts.items() if k not in ("title", "description")}

    trees = {file: expand(schemas[kind.__name__]) for file, kind in FILES.items()}
    trees["config.json"]["properties"]["config"] = {
        "type": "object",
        "properties": {key: {} for key in sorted(RunConfig(batch=True).to_json())},
    }
    question = trees["questions.jsonl"]
    question["properties"] = {SAVED_NAMES.get(k, k): v for k, v in question["properties"].items()}
    question["required"] = [SAVED_NAMES.get(name, name) for name in question["required"]]
    return json.loads(json.dumps({"format": FORMAT, **trees}))


def differences(old, new, path):
    """Yield differences that make one version fail to read, or misread, files of the other."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            yield f"{path}: {old} became {new}"
        return
    for key in sorted((old.keys() | new.keys()) - {"properties", "required", "anyOf"}):
        yield from differences(old.get(key), new.get(key), path)
    old_choices, new_choices = old.get("anyOf", []), new.get("anyOf", [])
    if len(old_choices) != len(new_choices):
        yield f"{path}: {len(old_choices)} kinds became {len(new_choices)}"
    for old_choice, new_choice in zip(old_choices, new_choices, strict=False):
        yield from differences(old_choice, new_choice, path)
    old_fields, new_fields = old.get("properties", {}), new.get("properties", {})
    old_required, new_required = set(old.get("required", ())), set(new.get("required", ()))
    for name in sorted(old_fields.keys() | new_fields.keys()):
        location = f"{path}: {name}"
        if name not in new_fields:
            yield f"{location} is gone"
        elif name not in old_fields:
            if name in new_required:
                yield f"{location} is new and required"
        else:
            if (name in old_required) != (name in new_required):
                yield f"{location} became {'required' if name in new_required else 'optional'}"
            yield from differences(old_fields[name], new_fields[name], location)


def test_incompatible_format_has_a_new_number():
    saved, declared = json.loads(SAVED.read_text()), declared_schemas()
    if saved.pop("format") != declared.pop("format"):
        pytest.fail(f"the format has changed: update {SAVED.name} with python {__file__}")
    result = [line for file in saved for line in differences(saved[file], declared[file], file)]
    assert not result, (
        "raise FORMAT in runs/log/schema.py, or keep the log compatible: " + "; ".join(result)
    )


@pytest.mark.parametrize(
    ("change", "problem"),
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
def test_only_added_optional_fields_are_compatible(change, problem):
    before = declared_schemas()["turns.jsonl"]
    after = deepcopy(before)
    change(after)
    problems = list(differences(before, after, "turns.jsonl"))
    assert len(problems) == (problem is not None)
    assert problem is None or problem in problems[0]


if __name__ == "__main__":
    lines = (
        f'"{file}": {json.dumps(tree, sort_keys=True)}' for file, tree in declared_schemas().items()
    )
    SAVED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
