"""MkDocs hooks: rewrite links that leave docs/, and insert generated parts of pages.

Pages in docs/ link to files of the repository, so that the links also work on the repository's website. Linked documents
become pages of the site; links to other files are replaced by their text.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

TREE = Path(__file__).parents[1]

# Documents outside docs/ that pages link to; on the site they are below `repository/`.
BESIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "examples/README.md",
    "scenes/README.md",
    "training/README.md",
    "render_agent/engines/bundled_models/small/README.md",
    "render_agent_lab/bench/results/**/*.md",
    "render_agent_lab/bench/results/**/*.svg",
)

LINK = re.compile(r"(?<!\\)(?P<label>!?\[(?:[^\]\[]|\[[^\]]*\])*\])\((?P<place>[^)\s]+)\)")


def instructions_part() -> str:
    """Return the instructions of a dialogue with default options."""
    from render_agent.options import RunConfig
    from render_agent.runs.build import build

    return f"```text\n{build(RunConfig(batch=True)).prompt.instructions}\n```"


def schema_part() -> str:
    """Return the JSON schema of a reply."""
    from render_agent.dialogue.reply import ReplyForm
    from render_agent.dialogue.reply_protocol import JsonProtocol

    return f"```json\n{json.dumps(JsonProtocol().schema(ReplyForm(), None), indent=1)}\n```"


def fields_part() -> str:
    """Return the table of reply fields, including `measure`."""
    from render_agent.dialogue.reply import ReplyForm

    form = ReplyForm(image_size=(640, 480), asks_confidence=True)
    rows = [
        f"| {', '.join(f'`{field.name}`' for field in fields)} | {meaning} |"
        for fields, meaning in form.meanings()
    ]
    return "\n".join(["| field | meaning |", "|---|---|", *rows])


def tools_part() -> str:
    """Return the table of tools and their parameters."""
    from render_agent.dialogue.reply import TOOLS, tool_fields

    rows = [
        f"| `{tool}` | {', '.join(f'`{field.name}`' for field in tool_fields(tool))} |"
        for tool in TOOLS
    ]
    return "\n".join(["| tool | parameters |", "|---|---|", *rows])


def families_part() -> str:
    """Return the table of model families known to the in-process engine."""
    from render_agent.engines.families.model_families import FAMILIES

    head = "| family | `model_type` | kept | thinking | why not more |\n|---|---|---|---|---|"
    rows = [
        f"| {family.name} | {', '.join(f'`{name}`' for name in family.model_types)}"
        f" | `{family.reuse}`{' and states' if family.recurrent else ''}"
        f" | `{family.thinking.switch}`, `{family.thinking.opens}…{family.thinking.closes}` | {family.why} |"
        for family in FAMILIES
    ]
    return "\n".join([head, *rows])


# Replacements of `<!-- generated: NAME -->` in pages.
GENERATED = {
    "instructions": instructions_part,
    "schema": schema_part,
    "fields": fields_part,
    "tools": tools_part,
    "families": families_part,
}


def outside_documents() -> Iterator[Path]:
    """Yield the documents outside docs/ that become pages."""
    for pattern in BESIDE:
        yield from sorted(path for path in TREE.glob(pattern) if path.is_file())


def uri_of(path: Path) -> str:
    """Return the path of a document from outside docs/ in the site's sources."""
    name = path.relative_to(TREE).as_posix()
    if path.name == "README.md":
        name = f"{path.parent.relative_to(TREE).as_posix()}.md"
    return f"repository/{name if path.suffix else name + '.md'}"


def on_files(files: Files, config: Any) -> Files:
    """Add the documents outside docs/."""
    for path in outside_documents():
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
    """Return a relative link as the site needs it, or None if its file is not part of the site.

    Raises PluginError if the file does not exist.

    Args:
        place: Target of the link.
        page: File that contains the link.
        uri: Path of the page in the site's sources.
    """
    name, _, anchor = place.partition("#")
    target = (page.parent / name).resolve()
    if not target.exists():
        raise PluginError(f"{page.relative_to(TREE)} links to {place}, which does not exist")
    target = target / "README.md" if target.is_dir() else target
    if target.is_relative_to(TREE / "docs"):
        path = "index.md" if not target.exists() else target.relative_to(TREE / "docs").as_posix()
    elif target in set(outside_documents()):
        path = uri_of(target)
    else:
        return None
    relative = posixpath.relpath(path, posixpath.dirname(uri) or ".")
    return f"{relative}#{anchor}" if anchor else relative


def rewrite_links(text: str, page: Path, uri: str) -> str:
    """Return a page's Markdown with links rewritten for the site, except in code blocks."""

    def link(match: re.Match[str]) -> str:
        label, place = match["label"], match["place"]
        if "://" in place or place.startswith(("#", "mailto:")):
            return match[0]
        inside = within_site(place, page, uri)
        return label.strip("![]") if inside is None else f"{label}({inside})"

    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if index % 2 else LINK.sub(link, part) for index, part in enumerate(parts))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Insert the generated parts and rewrite links to documents outside docs/."""
    uri = page.file.src_uri
    sources = {uri_of(path): path for path in outside_documents()}
    text = rewrite_links(markdown, sources.get(uri, TREE / "docs" / uri), uri)
    return re.sub(r"<!-- generated: (\w+) -->", lambda part: GENERATED[part[1]](), text)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Leave the default empty for options without one; mkdocs-click prints click's placeholders."""
    return re.sub(r"<code>(?:Sentinel\.UNSET|None|\(\))</code></td>", "</td>", html)


def on_post_build(config: Any) -> None:
    """Remove the theme's 404.html, whose links start at the server root, because the site is opened from disk."""
    Path(config.site_dir, "404.html").unlink(missing_ok=True)
