"""Plots as vector graphics: drawn by matplotlib, the same bytes for the same figures."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree

from render_agent.analysis.report.plots.palette import INK, LINE, NAMES, PAPER, SOFT
from render_agent.extras import require
from render_agent.text.sanitize import visible

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
    leads = any(element.tag == "a" for element in root.iter())
    for index, (tag, words) in enumerate((("title", title), ("desc", description))):
        child = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        child.text = words
        root.insert(index, child)
    size = [float(root.attrib.pop(side).removesuffix("pt")) for side in ("width", "height")]
    root.attrib = {
        "xmlns": SVG,
        "viewBox": root.attrib["viewBox"],
        "width": f"{size[0]:g}",
        "height": f"{size[1]:g}",
        "role": "group" if leads else "img",  # what is within an img, nobody reaches
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

    def renumbered(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"{match[0][0]}{len(numbers)}")

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
    attributes = element.attrib
    if element.tag == "a":
        _lead(attributes)
        return
    if (old_id := attributes.pop("id", None)) in used:
        attributes["id"] = f"{name}-{old_id}"
    if target := attributes.pop(f"{{{XLINK}}}href", None):
        attributes["href"] = f"#{name}-{target[1:]}"
    if "clip-path" in attributes:
        attributes["clip-path"] = attributes["clip-path"].replace("url(#", f"url(#{name}-")
    if re.fullmatch(r"rotate\(-?0 .*\)", attributes.get("transform", "")):
        del attributes["transform"]
    if "d" in attributes:
        attributes["d"] = re.sub(r"\s*\n\s*", " ", attributes["d"]).strip()
        attributes["d"] = re.sub(r"(\.\d\d)\d+", r"\1", attributes["d"])
    classes = []
    for part in filter(None, (part.strip() for part in attributes.pop("style", "").split(";"))):
        key, value = (half.strip() for half in part.split(":", 1))
        if key in DROPPED:
            continue
        if key == "font":
            key, value = "font-size", re.findall(r"[\d.]+px", value)[0]
        attributes[key] = value
        if key in ("fill", "stroke") and value.lower() in NAMES:
            classes.append(f"{key[0]}-{NAMES[value.lower()]}")
    if classes:
        attributes["class"] = " ".join(classes)


def _lead(attributes: dict[str, str]) -> None:
    """Let a link lead within its page; who goes by keys has the same links in the table of the figures."""
    target = attributes[f"{{{XLINK}}}href"]
    attributes.clear()
    kept = ", ".join(f"{name} {value}" for name, value in parse_qsl(target[1:]))
    attributes |= {"href": target, "tabindex": "-1", "aria-label": f"Questions of {kept}"}


def _bare(tag: str) -> str:
    return tag.rpartition("}")[2]


WIDTH = 5.2
"""Inches: about as many points as a phone is wide, so that its letters can be read there too."""

LONGEST_NAME = 34
"""Characters of a row's name: about half the width of a plot."""

LEGEND = 9
"""Points of the letters of a legend."""

Cell = str | float | int | None

STYLE = {
    "svg.hashsalt": "render-agent",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a $ in a name is a $
    "font.size": 9.5,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "axes.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": LEGEND,
    "legend.handlelength": 1.2,
    "legend.columnspacing": 1.2,
    "patch.edgecolor": PAPER,
    "lines.linewidth": 1.8,
}
"""How every plot looks, in matplotlib's settings."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot and its figures.

    name: of its file. title: what it shows, with the unit. description: what there is to see, for
    whoever does not. svg: an <svg> element. columns, rows: the figures that it was drawn from. note:
    how to read it. links: by the first cell of a row, where its questions are in the index.
    """

    name: str
    title: str
    description: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    links: Mapping[Cell, str] = field(default_factory=dict)


def draw(
    name: str,
    title: str,
    description: str,
    paint: Callable[[Any], None],
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    height: float = 3.0,
    note: str = "",
    links: Mapping[Cell, str] | None = None,
) -> Plot:
    """Return a plot.

    paint: draws on matplotlib axes, in colours of the palette; it gives them their labels with units.
    height: inches. rows: the figures, in `columns`, that the drawing shows.
    """
    require("a report", "matplotlib")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        paint(figure.subplots())
        figure.suptitle(title, x=0.005, ha="left", fontweight="bold", fontsize=10.5)
        text = _svg(figure)
    return Plot(
        name,
        title,
        description,
        pageable(settled(text), f"plot-{name}", title, description),
        tuple(columns),
        tuple(tuple(row) for row in rows),
        note,
        links or {},
    )


def kept_by(**values: str | int) -> str:
    """Return the address in the index of the questions that have these values, by column."""
    return f"#{urlencode(values)}"


def above(axes: Any, columns: int = 3) -> None:
    """Put a legend of so many columns between the title and the axes."""
    names = axes.get_legend_handles_labels()[1]
    lines = -(-len(names) // columns)
    axes.set_title("\n".join([" "] * lines), fontsize=LEGEND, linespacing=1.45, pad=8)
    # placed once the layout is known: a legend wider than the axes would make them smaller
    axes.legend(loc="lower left", ncols=columns, borderaxespad=0.2).set_in_layout(False)


def short_names(names: Sequence[str]) -> list[str]:
    """Return names of at most `LONGEST_NAME` characters, whose middle is left out where they are longer.

    Those that would look the same then begin with the number of their row.
    """
    first = LONGEST_NAME // 3  # names differ at their ends, where also their numbers stand
    short = [
        name if len(name) <= LONGEST_NAME else f"{name[:first]}…{name[first + 1 - LONGEST_NAME :]}"
        for name in names
    ]
    return [
        name if short.count(name) == 1 or name == whole_name else f"{row}: {name}"
        for row, (name, whole_name) in enumerate(zip(short, names, strict=True), 1)
    ]


def name_rows(axes: Any, names: Sequence[str], links: Sequence[str | None] = ()) -> None:
    """Name the rows of a plot at y = 0, 1, …, the first on top; no font draws what cannot be seen.

    Long names are shortened, so that they leave room to the drawing; the table of the figures has them
    in full. links: where the names lead to, those of them that do.
    """
    axes.set_yticks(range(len(names)), short_names([visible(name) for name in names]))
    for label, link in zip(axes.get_yticklabels(), links, strict=False):
        label.set_url(link)
    axes.set_ylim(len(names) - 0.4, -0.6)


def stacked(
    axes: Any,
    names: Sequence[str],
    parts: Mapping[str, tuple[str, Sequence[float]]],
    of: str,
    columns: int = 4,
    links: Sequence[Mapping[str, str]] = (),
) -> None:
    """Draw a level bar for each name, of parts side by side: by label, the colour and the percent of every bar.

    of: what the percents are of. columns: of the legend. links: where each bar's name ("") and its parts, by label, lead to.
    """
    left = [0.0] * len(names)
    for label, (colour, percents) in parts.items():
        bars = axes.barh(
            range(len(names)), percents, left=left, color=colour, label=label, height=0.72
        )
        for bar, own, percent in zip(bars, links, percents, strict=False):
            bar.set_url(own.get(label) if percent else None)
        left = [a + b for a, b in zip(left, percents, strict=True)]
    name_rows(axes, names, [own.get("") for own in links])
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"{of}, %")
    above(axes, columns)


def interval_line(axes: Any, bounds: Sequence[float] | None, y: float, colour: str) -> None:
    """Draw an interval as a level line, nothing where there is none."""
    if bounds is not None:
        axes.plot(bounds, [y, y], color=colour, lw=1.7, solid_capstyle="butt")


def from_zero(axes: Any, room: float) -> None:
    """Let the heights of bars begin at 0 and leave a share of the axes free above the highest."""
    axes.use_sticky_edges = False  # else a part of no height on top of a bar holds the axes to it
    axes.margins(y=room)
    axes.set_ylim(bottom=0)


def whole(axis: Any) -> None:
    """Let an axis that counts have whole numbers only."""
    axis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _svg(figure: Any) -> str:
    """Return a figure as matplotlib writes it."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    canvas, file = FigureCanvasSVG(figure), io.BytesIO()
    _align(figure)
    # not by savefig, which draws all of it once more beforehand
    canvas.print_svg(file, metadata={"Date": None})
    return file.getvalue().decode()


def _align(figure: Any) -> None:
    """Let the legends begin where the figure does."""
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        if legend := axes.get_legend():
            box = axes.get_position()
            legend.set_bbox_to_anchor((-box.x0 / box.width, 1.0))
