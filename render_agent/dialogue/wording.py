"""`Wording`: templates of all texts that a model reads, loaded from a YAML file. Each run uses one wording."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from string import Formatter

from render_agent.errors import SetupError, os_errors
from render_agent.util.reasons import reason_of
from render_agent.util.safe_parse import parse_yaml, read_bounded

GENERAL_FILE = Path(__file__).with_name("wording.yaml")

FILE_NAME = "wording.yaml"  # a model's own wording, in the model's folder

MAX_BYTES = 1_000_000  # size limit of a wording file


@dataclass(frozen=True, eq=False)  # hashable, for caches
class Wording:
    """Text templates by key, such as `moves.turned_left`. Call the object to fill one in."""

    templates: Mapping[str, str]  # key -> template with named placeholders
    file: Path  # the file that the templates were read from

    def __call__(self, key: str, **values: object) -> str:
        """Fill in a template. Values without a matching placeholder are ignored."""
        return self.templates[key].format(**values)

    def beginning(self, key: str) -> str:
        """Return the part of a template before its first placeholder."""
        return next(iter(Formatter().parse(self.templates[key])))[0]

    @property
    def is_general(self) -> bool:
        """True unless the wording belongs to a specific model."""
        return self.file == GENERAL_FILE

    @property
    def version(self) -> str:
        """Version of the texts; for a model's own wording, of the general wording that it is based on."""
        return self.templates["about.version"]

    @cached_property
    def options(self) -> str:
        """How the model names options: by `letters`, or by their `words` if it was trained to."""
        return self.templates["about.options"]

    @property
    def sha256(self) -> str:
        """SHA-256 of all templates, including inherited ones; comments and layout do not count."""
        texts = json.dumps(dict(self.templates), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(texts.encode()).hexdigest()


MODEL_FACTS = ("about.beliefs",)  # keys that only the wordings of models have


@cache
def general() -> Wording:
    """Return the general wording, for models without their own."""
    return Wording(_read(GENERAL_FILE), GENERAL_FILE)


def load_wording(file: Path) -> Wording:
    """Return a model's own wording; missing keys are inherited from the general wording.

    An empty template in `fields` removes that field from the model's replies; without `question.number_in`, units are
    not named.
    """
    general_templates, templates = general().templates, _read(file)
    for key, template in templates.items():
        if key in MODEL_FACTS:
            continue
        if key not in general_templates:
            raise SetupError(f"{file}: unknown key {key}. Remove it or correct its name.")
        if not template and (key.startswith("fields.") or key == "question.number_in"):
            continue
        differing_names = placeholders(template) ^ placeholders(general_templates[key])
        if differing_names:
            unknown = differing_names & placeholders(template)
            name = min(unknown or differing_names)
            raise SetupError(
                f"{file}: {key}: {'unknown' if unknown else 'missing'} placeholder {{{name}}}."
                f" Use the placeholders of {GENERAL_FILE.name} in the package."
            )
    return Wording({**general_templates, **templates}, file)


def placeholders(template: str) -> set[str]:
    """Return the names of the placeholders in a template. Raises ValueError."""
    names = set()
    for _, name, layout, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier() or layout or conversion:
            raise ValueError(f"{{{name}}} is not a plain name in braces")
        names.add(name)
    return names


def _read(file: Path) -> dict[str, str]:
    """Return the templates of a file by `section.key`."""
    with os_errors(SetupError, f"read {file}", also=ValueError):
        content = read_bounded(file, MAX_BYTES)
    templates: dict[str, str] = {}
    try:
        sections = parse_yaml(content.decode())
        if not isinstance(sections, dict):
            raise ValueError("expected a mapping of sections")
        for section, texts in sections.items():
            if not isinstance(texts, dict):
                raise ValueError(f"section {section} must be a mapping of keys to texts")
            for key, template in texts.items():
                if not isinstance(template, str):
                    raise ValueError(f"{section}.{key} must be a text")
                placeholders(template)
                templates[f"{section}.{key}"] = template
    except ValueError as error:
        raise SetupError(f"{file} is not a valid wording file: {reason_of(error)}") from error
    return templates
