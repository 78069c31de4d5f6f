"""matplotlib's SVG → one that a page can hold: no styles, no ids of others, colours by name."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from render_agent.analysis.report.plots.palette import NAMES

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
DROPPED = ("font-family", "-inkscape-stroke")


def pageable(text: str, name: str, title: str, description: str) -> str:
    """Return a drawing as an <svg> element without anything that a strict page forbids.

    Styles become attributes, known colours classes beside them (`f-blue`, `s-line`), by which a page
    colours it anew; ids, which are unique in one drawing only, begin with `name`. Readers of screens
    are told the title and the description.
    """
    root = ElementTree.fromstring(text)
    for parent in root.iter():
        for child in list(parent):
            if _bare(child.tag) in ("metadata", "style"):
                parent.remove(child)
    used = set(re.findall(r"#([\w.-]+)", " ".join(_references(root))))
    for element in root.iter():
        _clean(element, name, used)
    for place, (tag, words) in enumerate((("title", title), ("desc", description))):
        told = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        told.text = words
        root.insert(place, told)
    size = [float(root.attrib.pop(side).removesuffix("pt")) for side in ("width", "height")]
    root.attrib = {
        "xmlns": SVG,
        "viewBox": root.attrib["viewBox"],
        "width": f"{size[0]:g}",
        "height": f"{size[1]:g}",
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
        "font-family": "sans-serif",
        "stroke-linejoin": "round",
        "class": "plot",
    }
    return re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode"))


def settled(text: str) -> str:
    """Return a drawing of matplotlib's with the ids that it made renumbered as they come.

    It hashes them from places on the page, and the solver of the layout may leave the last bit of a
    place open: the same figures would not always give the same bytes.
    """
    numbers: dict[str, str] = {}

    def renumbered(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"{found[0][0]}{len(numbers)}")

    return re.sub(r"(?<=[\"#])[a-z][0-9a-f]{10}(?=[\")])", renumbered, text)


def _references(root: ElementTree.Element) -> list[str]:
    return [
        value
        for element in root.iter()
        for key, value in element.attrib.items()
        if key == f"{{{XLINK}}}href" or value.startswith("url(")
    ]


def _clean(element: ElementTree.Element, name: str, used: set[str]) -> None:
    """Make one element's tag, ids, references and styles fit for a page."""
    element.tag = _bare(element.tag)
    given = element.attrib
    if (own := given.pop("id", None)) in used:
        given["id"] = f"{name}-{own}"
    if target := given.pop(f"{{{XLINK}}}href", None):
        given["href"] = f"#{name}-{target[1:]}"
    if "clip-path" in given:
        given["clip-path"] = given["clip-path"].replace("url(#", f"url(#{name}-")
    if re.fullmatch(r"rotate\(-?0 .*\)", given.get("transform", "")):
        del given["transform"]
    if "d" in given:
        given["d"] = re.sub(r"\s*\n\s*", " ", given["d"]).strip()
        given["d"] = re.sub(r"(\.\d\d)\d+", r"\1", given["d"])
    classes = []
    for part in filter(None, (part.strip() for part in given.pop("style", "").split(";"))):
        key, value = (half.strip() for half in part.split(":", 1))
        if key in DROPPED:
            continue
        if key == "font":
            key, value = "font-size", re.findall(r"[\d.]+px", value)[0]
        given[key] = value
        if key in ("fill", "stroke") and value.lower() in NAMES:
            classes.append(f"{key[0]}-{NAMES[value.lower()]}")
    if classes:
        given["class"] = " ".join(classes)


def _bare(tag: str) -> str:
    return tag.rpartition("}")[2]
