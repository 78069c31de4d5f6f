"""`Wording`: the sentences that a model reads, as templates from a YAML file; all of a run come from one of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter

from render_agent.errors import SetupError, os_errors
from render_agent.util.reasons import reason_of
from render_agent.util.safe_parse import parse_yaml, read_bounded

GENERAL_FILE = Path(__file__).with_name("wording.yaml")

FILE_NAME = "wording.yaml"
"""A model's own wording, in its folder."""

MAX_BYTES = 1_000_000
"""Size limit of a wording file."""


@dataclass(frozen=True)
class Wording:
    """Templates by key, such as `moves.turned_left`; calling it fills one in.

    file: where they were read from.
    """

    templates: Mapping[str, str]
    file: Path

    def __call__(self, key: str, **values: object) -> str:
        """Return a text with its placeholders filled in; values without a placeholder are ignored."""
        return self.templates[key].format(**values)

    def beginning(self, key: str) -> str:
        """Return the part of a text before its first placeholder."""
        return next(iter(Formatter().parse(self.templates[key])))[0]

    @property
    def is_general(self) -> bool:
        """True unless it is a model's own."""
        return self.file == GENERAL_FILE

    @property
    def version(self) -> str:
        """Version of the texts, or of the general texts that a model's own wording is based on."""
        return self.templates["about.version"]

    @property
    def sha256(self) -> str:
        """The SHA-256 of all texts, those from the general file included; comments and layout do not count."""
        texts = json.dumps(dict(self.templates), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(texts.encode()).hexdigest()


@cache
def general() -> Wording:
    """Return the wording of every model that does not bring its own."""
    return Wording(_read(GENERAL_FILE), GENERAL_FILE)


def load_wording(file: Path) -> Wording:
    """Return a model's own wording; keys that the file lacks are taken from the general one.

    An empty text of `fields` removes fields from the replies of the model. SetupError if the file cannot be read, or
    has a key or a placeholder that the general wording lacks, or lacks a placeholder of a text.
    """
    known, own = general().templates, _read(file)
    for key, template in own.items():
        if key not in known:
            raise SetupError(f"{file} has an unknown text, {key}: remove it or correct its name")
        if not template and key.startswith("fields."):
            continue
        wrong = placeholders(template) ^ placeholders(known[key])
        if wrong:
            what = "an unknown" if wrong & placeholders(template) else "no"
            name = min(wrong & placeholders(template) or wrong)
            raise SetupError(
                f"{file}: {key} has {what} placeholder {{{name}}}: use those of {GENERAL_FILE.name} in the package"
            )
    return Wording({**known, **own}, file)


def placeholders(template: str) -> set[str]:
    """Return the names in braces. ValueError for unbalanced braces and anything but a plain name."""
    names = set()
    for _, name, layout, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name.isidentifier() or layout or conversion:
            raise ValueError(f"{{{name}}} is not a plain name in braces")
        names.add(name)
    return names


def _read(file: Path) -> dict[str, str]:
    """Return the templates of a file by `section.key`. SetupError if there is no such file or it is no wording."""
    with os_errors(SetupError, f"read {file}", also=ValueError):
        content = read_bounded(file, MAX_BYTES)
    templates: dict[str, str] = {}
    try:
        sections = parse_yaml(content.decode())
        if not isinstance(sections, dict):
            raise ValueError("it has no sections")
        for section, texts in sections.items():
            if not isinstance(texts, dict):
                raise ValueError(f"{section} is not a section of texts")
            for key, template in texts.items():
                if not isinstance(template, str):
                    raise ValueError(f"{section}.{key} is not a text")
                placeholders(template)
                templates[f"{section}.{key}"] = template
    except ValueError as error:
        raise SetupError(f"{file} cannot be read as a wording: {reason_of(error)}") from error
    return templates
