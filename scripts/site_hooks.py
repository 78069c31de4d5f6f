"""What MkDocs does beside its own work when it builds the site: links out of docs/, and no outside request.

Pages of docs/ link to files of the repository, so that they can be followed where the repository is read.
Documents among these become pages of the site; of all others the site shows the text without a link.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

TREE = Path(__file__).parents[1]

BESIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "examples/README.md",
    "scenes/README.md",
    "training/README.md",
    "render_agent/models/small/README.md",
    "benchmarks/results/**/*.md",
    "benchmarks/results/**/*.svg",
)
"""Documents outside docs/ that pages link to; in the site they lie below `repository/`."""

LINK = re.compile(r"(?<!\\)(?P<label>!?\[(?:[^\]\[]|\[[^\]]*\])*\])\((?P<place>[^)\s]+)\)")

FETCHING = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "link": ("href",),
}
"""The attributes by which a page has something loaded, by element."""

QUIET_LINKS = {"canonical", "next", "prev", "alternate", "edit"}
"""Relations of <link> that load nothing."""


def beside() -> Iterator[Path]:
    """Give the documents outside docs/ that become pages."""
    for pattern in BESIDE:
        yield from sorted(path for path in TREE.glob(pattern) if path.is_file())


def uri_of(path: Path) -> str:
    """Return where a document from outside docs/ lies in the site's sources."""
    name = path.relative_to(TREE).as_posix()
    if path.name == "README.md":
        name = f"{path.parent.relative_to(TREE).as_posix()}.md"
    return f"repository/{name if path.suffix else name + '.md'}"


def on_files(files: Files, config: Any) -> Files:
    """Add the documents outside docs/."""
    for path in beside():
        if path.suffix == ".svg":
            files.append(File.generated(config, uri_of(path), abs_src_path=str(path)))
            continue
        text = path.read_text("utf-8")
        text = f"# Licence\n\n```text\n{text}```\n" if path.name == "LICENSE" else text
        files.append(File.generated(config, uri_of(path), content=text))
    for file in files:
        if file.src_uri.startswith("repository/"):
            file.inclusion = type(file.inclusion).NOT_IN_NAV
    return files


def within_site(place: str, page: Path, uri: str) -> str | None:
    """Return a relative link as it reads in the site, None where its file is no part of it.

    page: the file that has the link. uri: where that lies in the site's sources. PluginError where
    there is no such file.
    """
    name, _, anchor = place.partition("#")
    target = (page.parent / name).resolve()
    if not target.exists():
        raise PluginError(f"{page.relative_to(TREE)} links to {place}, which does not exist")
    target = target / "README.md" if target.is_dir() else target
    if target.is_relative_to(TREE / "docs"):
        found = "index.md" if not target.exists() else target.relative_to(TREE / "docs").as_posix()
    elif target in set(beside()):
        found = uri_of(target)
    else:
        return None
    relative = posixpath.relpath(found, posixpath.dirname(uri) or ".")
    return f"{relative}#{anchor}" if anchor else relative


def relinked(text: str, page: Path, uri: str) -> str:
    """Return a page's Markdown with its links as they read in the site; those in code stay."""

    def link(found: re.Match[str]) -> str:
        label, place = found["label"], found["place"]
        if "://" in place or place.startswith(("#", "mailto:")):
            return found[0]
        inside = within_site(place, page, uri)
        return label.strip("![]") if inside is None else f"{label}({inside})"

    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if index % 2 else LINK.sub(link, part) for index, part in enumerate(parts))


def unescaped(text: str) -> str:
    """Return Markdown whose tables have bars in code as bars: where they are escaped, the site shows that."""
    rows = re.compile(r"^\|.*\|$", re.MULTILINE)
    code = re.compile(r"`[^`]*`")
    return rows.sub(lambda row: code.sub(lambda word: word[0].replace("\\|", "|"), row[0]), text)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Have links out of docs/ lead to where the site has their documents."""
    uri = page.file.src_uri
    sources = {uri_of(path): path for path in beside()}
    return unescaped(relinked(markdown, sources.get(uri, TREE / "docs" / uri), uri))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name the dialog of the search, which the theme does not."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


class Loaded(HTMLParser):
    """The addresses that a page has its browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element loads."""
        given = dict(attrs)
        if tag == "link" and set((given.get("rel") or "").split()) <= QUIET_LINKS:
            return
        self.addresses += [given[name] or "" for name in FETCHING.get(tag, ()) if name in given]


def outside(address: str) -> bool:
    """Whether an address leads off the site."""
    return bool(re.match(r"(?:[a-z][a-z0-9+.-]*:)?//", address.strip(), re.IGNORECASE))


def requests_to_outside(site: Path) -> list[str]:
    """Return what the pages and styles of a built site would load from elsewhere."""
    found = []
    for path in sorted(site.rglob("*.html")):
        page = Loaded()
        page.feed(path.read_text("utf-8"))
        found += [f"{path.relative_to(site)}: {name}" for name in page.addresses if outside(name)]
    for path in sorted(site.rglob("*.css")):
        loaded = re.findall(r"(?:url\(|@import\s)\s*[\"']?([^\"')\s]+)", path.read_text("utf-8"))
        found += [f"{path.relative_to(site)}: {name}" for name in loaded if outside(name)]
    return found


def on_post_build(config: Any) -> None:
    """Stop the build where a page would ask for something from outside.

    The theme's 404.html goes: its addresses begin at the root of a server, and the site is opened from disk.
    """
    Path(config.site_dir, "404.html").unlink(missing_ok=True)
    if found := requests_to_outside(Path(config.site_dir)):
        raise PluginError(f"{len(found)} requests to outside, such as {'; '.join(found[:5])}")
