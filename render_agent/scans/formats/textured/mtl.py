"""Parse MTL files, the materials of OBJ files."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# Options that may precede the image name in a map_* line.
OPTION = re.compile(r"-(?:blendu|blendv|cc|clamp|imfchan|texres|bm|boost|mm|o|s|t|type)\b", re.I)

COMMENT = re.compile(r"\s#\s.*")  # image names may contain "#"
QUOTED = re.compile(r"\"([^\"]*)\"")

MAX_UNUSED = 100  # unsupported statements that are recorded per material

# Statements that change neither a material's own colour nor its shape.
HARMLESS = set("newmtl ka ks ns ni illum tf sharpness pr pm ps pc pcr aniso anisor".split())


@dataclass(frozen=True)
class MtlMaterial:
    colour: tuple[float, ...] = (1.0, 1.0, 1.0)  # sRGB base colour from 0 to 1
    emission: tuple[float, ...] = (0.0, 0.0, 0.0)  # sRGB emission from 0 to 1
    image: str | None = None
    alpha: str | None = None
    light: str | None = None
    scale: tuple[float, ...] = (1.0, 1.0)
    shift: tuple[float, ...] = (0.0, 0.0)
    clamped: bool = False  # whether the image ends at its edges instead of being repeated
    unused: tuple[str, ...] = ()


def parse_mtl(text: str) -> dict[str, MtlMaterial]:
    """Parse the materials of an MTL file, by name; invalid lines are ignored."""
    entries: dict[str, MtlMaterial] = {}
    name: str | None = None
    for line in text.splitlines():
        key, *words = line.partition("#")[0].split() or [""]
        key, rest = key.lower(), line.strip()[len(key) :].strip()
        if key == "newmtl":
            name = " ".join(rest.split())
            entries[name] = MtlMaterial()
        elif name is not None and key:
            entries[name] = replace(entries[name], **_change(entries[name], key, words, rest))
    return entries


def _change(entry: MtlMaterial, key: str, words: list[str], rest: str) -> dict[str, Any]:
    """Return the attributes of a material that a statement sets."""
    numbers = _numbers(words)
    if key in ("kd", "ke"):
        if not numbers:  # a spectral curve or CIE XYZ
            return {"unused": (*entry.unused, " ".join([key, *words[:1]]))}
        return {"colour" if key == "kd" else "emission": (numbers * 3)[:3]}
    if key == "map_kd":
        return _image_line(rest)
    if key in ("map_ke", "map_d"):
        return {"light" if key == "map_ke" else "alpha": _image_line(rest)["image"]}
    # Programs disagree on which end of `Tr` is transparent.
    is_opaque = (key == "d" and numbers[-1:] == (1,)) or (key == "tr" and numbers in ((0,), (1,)))
    if key in HARMLESS or is_opaque or len(entry.unused) >= MAX_UNUSED:
        return {}
    return {"unused": (*entry.unused, key)}


def _image_line(rest: str) -> dict[str, Any]:
    """Parse the rest of a line `map_Kd [options] NAME`: the image name and the supported options."""
    options: dict[str, Any] = {}
    rest = COMMENT.sub("", rest)
    words, end = rest.split(), 0
    while end < len(words) and OPTION.fullmatch(words[end]):
        option = words[end].lower()
        start = end = end + 1
        while end + 1 < len(words) and (_is_word(option) or _numbers(words[end : end + 1])):
            end += 1
            if _is_word(option):
                break
        values = words[start:end]
        numbers = _numbers(values)
        if option == "-s" and numbers:
            options["scale"] = (*numbers, 1.0)[:2] if len(numbers) > 1 else (numbers[0], 1.0)
        elif option == "-o" and numbers:
            options["shift"] = (*numbers, 0.0)[:2]
        elif option == "-clamp":
            options["clamped"] = values[:1] == ["on"]
    # An image name with spaces is the unmodified rest of the line; some programs quote it.
    name = "".join(rest.split(maxsplit=end)[end:]).strip()
    options["image"] = (QUOTED.fullmatch(name) or (None, name))[1] or None
    return options


def _is_word(option: str) -> bool:
    """Return True if an option takes one word rather than numbers."""
    return option in ("-blendu", "-blendv", "-cc", "-clamp", "-imfchan", "-type")


def _numbers(words: list[str]) -> tuple[float, ...]:
    """Return the words as finite numbers, or () if any is not one."""
    try:
        values = tuple(float(word) for word in words)
    except ValueError:
        return ()
    return values if np.isfinite(values).all() else ()
