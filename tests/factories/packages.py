"""Installation of the example packages in docs/extending."""

import re
import shlex
import sys
import tomllib

from factories.documentation import blocks, read


def install(monkeypatch, folder, project, modules):
    """Install modules with the metadata of their pyproject.toml into a folder on `sys.path`."""
    metadata = tomllib.loads(project)["project"]
    site = folder / "site"
    record = site / f"{metadata['name'].replace('-', '_')}-{metadata['version']}.dist-info"
    record.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {metadata['name']}\nVersion: {metadata['version']}\n"
    (record / "METADATA").write_text(head, "utf-8")
    lines = [
        line
        for group, parts in metadata["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in parts.items()))
    ]
    (record / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source, "utf-8")
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(site)


def install_page(monkeypatch, folder, name):
    """Install the package of a page below docs/extending; return the arguments of its command."""
    page = f"extending/{name}.md"
    (module,), (project,), (command,) = (blocks(page, kind) for kind in ("python", "toml", ""))
    program, *arguments = shlex.split(command)
    assert program == "render-agent"
    (file,) = re.findall(r"^`(\w+)\.py`:$", read(page), re.MULTILINE)
    install(monkeypatch, folder, project, {file: module})
    return arguments
