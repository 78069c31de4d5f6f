"""Writes the generated parts of docs/ (commands, options, exit codes, Python, reply, modules) and the typed keywords.

    .venv/bin/python scripts/reference.py            # write what has changed
    .venv/bin/python scripts/reference.py --check    # name the stale files; exit code 1 where there is one

A generated part stands between `<!-- generated: NAME -->` and `<!-- end of generated -->`. What it says
comes from the program itself: from its commands and options as click has them, from the public names of
`render_agent`, and from the words and the JSON schema that a model is sent. The keywords of `render_agent.run` and
its like, render_agent/api/keywords.py, are written whole, from the declarations of the options.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

import click

import render_agent
from render_agent import registry
from render_agent.api.ask import COMMAND_LINE
from render_agent.cli.help_page import COMMANDS, ENVIRONMENT, EXIT_CODES, HEADINGS
from render_agent.cli.main import cli
from render_agent.config import CHANGEABLE, OPTIONS, RunConfig
from render_agent.dialogue.prompt import Prompt, reply_schema
from render_agent.engines.families.registry import FAMILIES

DOCS = Path(__file__).parents[1] / "docs"

KEYWORDS = DOCS.parent / "render_agent" / "api" / "keywords.py"

sys.path.insert(0, str(DOCS.parent))
from scripts import house  # noqa: E402

PART = re.compile(
    r"(?<=<!-- generated: )(?P<name>[a-z-]+)(?P<head> -->\n).*?(?=^<!-- end of generated -->$)",
    re.MULTILINE | re.DOTALL,
)


def cell(text: str) -> str:
    """Return a text as it may stand in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table in Markdown. head: the names of its columns, separated by bars."""
    columns = [name.strip() for name in head.split("|")]
    lines = [columns, ["---"] * len(columns), *([cell(text) for text in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def values_of(option: click.Option) -> str:
    """Return what an option takes, as its usage line writes it; nothing for a flag."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice) and not option.metavar:
        return "NAME" if too_long(option.type.choices) else "|".join(option.type.choices)
    return option.metavar or str(option.type.name).upper()


def too_long(choices: Sequence[str]) -> bool:
    """Whether the values of an option are too many to stand in its flag."""
    return len("|".join(choices)) > 24


def default_of(option: click.Option) -> str:
    """Return the default of an option as a person types it; nothing where there is none to type."""
    value = option.default
    if isinstance(value, Enum | bool) or value in (None, "", ()) or callable(value):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def flag_of(option: click.Option) -> str:
    """Return an option with what it takes: `--limit N`, `--browser / --no-browser`."""
    words = ", ".join(sorted(option.opts, key=len, reverse=True))
    if option.secondary_opts:
        words += " / " + ", ".join(option.secondary_opts)
    return f"`{words} {values_of(option)}".rstrip() + "`"


def sentence_of(option: click.Option) -> str:
    """Return what `--help` says of an option, and whether it may be repeated."""
    text = option.help or ""
    if option.multiple and "more than once" not in text and "several times" not in text:
        text += " May be repeated."
    if isinstance(option.type, click.Choice) and too_long(option.type.choices):
        text += f" One of {', '.join(f'`{choice}`' for choice in option.type.choices)}."
    return text


def own_options(command: click.Command) -> list[click.Option]:
    """Return the options of a command in their order, without --help."""
    found = [entry for entry in command.params if isinstance(entry, click.Option)]
    return [entry for entry in found if not entry.hidden]


def options_part() -> str:
    """Return a table for each group of options of a run, then one of the rest."""
    known = {entry.name: entry for entry in own_options(cli)}
    parts = []
    for group, heading in HEADINGS.items():
        names = [name for name, entry in OPTIONS.items() if entry.metadata["group"] == group]
        rows = [
            (
                f"{flag_of(known[name])}<br>`RENDER_AGENT_{name.upper()}`",
                default_of(known[name]),
                sentence_of(known[name]),
            )
            for name in names
        ]
        head = "option, and in the environment | default | meaning"
        parts.append(f"### {heading}\n\n{table(head, rows)}")
    others = [(flag_of(entry), sentence_of(entry)) for entry in known.values() if entry.name not in OPTIONS]  # fmt: skip
    others.append(("`--help, -h`", "Show all of the above and exit."))
    parts.append("### Other options\n\n" + table("option | meaning", others))
    return "\n".join(parts)


def told(command: click.Command) -> tuple[str, str]:
    """Return what a command's help says of it as paragraphs, and its examples as lines."""
    text = inspect.cleandoc((command.help or "").replace("\b", "")).replace("\n \n", "\n\n")
    paragraphs = [part.strip("\n") for part in re.split(r"\n\s*\n", text)]
    examples = [part for part in paragraphs if part.startswith("Examples:")]
    prose = [" ".join(part.split()) for part in paragraphs if part.strip() and part not in examples]
    lines = [line.strip() for part in examples for line in part.splitlines()[1:]]
    return "\n\n".join(prose), "\n".join(lines)


def command_section(path: str, command: click.Command) -> Iterator[str]:
    """Give the section of one command, then those of the commands below it."""
    context = click.Context(command, info_name=path)
    prose, examples = told(command)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"### {path}\n\n{prose}\n\n```text\n{path} {pieces}\n```\n\nExamples:\n\n```\n{examples}\n```\n"
    options = [entry for entry in own_options(command) if entry.name not in OPTIONS]
    shared = [entry for entry in own_options(command) if entry.name in OPTIONS]
    # A command's own option may have the name of a run's: it is one of those only if it says the same.
    runs = {entry.name: entry.help for entry in own_options(cli)}
    own = [entry for entry in shared if runs[entry.name] != entry.help]
    rows = [(flag_of(entry), default_of(entry), sentence_of(entry)) for entry in (*own, *options)]
    if rows:
        yield "\n" + table("option | default | meaning", rows)
    if taken := [entry for entry in shared if entry not in own]:
        flags = ", ".join(f"`{entry.opts[0]}`" for entry in taken)
        yield f"\nFrom the [options of a run](options.md): {flags}.\n"
    for name, inner in getattr(command, "commands", {}).items():
        yield "\n" + "".join(command_section(f"{path} {name}", inner))


def commands_part() -> str:
    """Return a section for each command, under the headings of `--help`."""
    parts = []
    for heading, names in COMMANDS.items():
        parts.append(f"## {heading}\n")
        parts += [
            "".join(command_section(f"render-agent {name}", registry.load("command", name)))
            for name in names
        ]
    return "\n".join(parts)


def main_part() -> str:
    """Return what `render-agent --help` says before its options."""
    prose, examples = told(cli)
    return f"{prose}\n\n```\n{examples}\n```\n"


def exit_codes_part() -> str:
    """Return the table of exit codes."""
    return table("code | meaning", [tuple(row) for row in EXIT_CODES])


def environment_part() -> str:
    """Return the table of variables of the environment."""
    rows = [(", ".join(f"`{name}`" for name in names.split(", ")), text) for names, text in ENVIRONMENT]  # fmt: skip
    return table("variable | meaning", rows)


class Bare:
    """An annotation that is shown as it was written, without quotes."""

    def __init__(self, text: object) -> None:
        self.text = text

    def __repr__(self) -> str:
        """Return the annotation."""
        return str(self.text)


def bare(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature without `self`, its annotations as they were written."""
    empty = inspect.Signature.empty
    parameters = [
        entry if entry.annotation is empty else entry.replace(annotation=Bare(entry.annotation))
        for entry in signature.parameters.values()
        if entry.name not in ("self", "cls")
    ]
    returned = signature.return_annotation
    return signature.replace(
        parameters=parameters, return_annotation=empty if returned is empty else Bare(returned)
    )


def parameters_of(signature: inspect.Signature) -> Iterator[str]:
    """Give the parameters of a signature as they are written, with the star before keywords."""
    starred = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        yield str(parameter)


def declaration(function: Callable[..., object], name: str) -> str:
    """Return a function as it is declared, in a block of Python, a parameter a line where it is long."""
    signature = bare(inspect.signature(function))
    line = f"{name}{signature}"
    if len(line) > 96:
        inner = "".join(f"    {parameter},\n" for parameter in parameters_of(signature))
        line = f"{name}(\n{inner}) -> {signature.return_annotation}"
    return f"```python\n{line}\n```"


def paragraph(text: str, names: list[str]) -> str:
    """Return a paragraph of a docstring as Markdown: an example as a block, parameters as a list."""
    if text.startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if text.startswith("    "):
        return f"```python\n{inspect.cleandoc(text)}\n```"
    name = f"(?:{'|'.join(names)})"
    if names and re.match(f"{name}(?:, {name})*: ", text):
        flat, error, after = re.sub(
            r"(?<=[.] )(?=\w+Error |Returns )", "\0", " ".join(text.split()), count=1
        ).partition("\0")
        entries = re.split(rf"(?:^|(?<=[.;] ))({name}(?:, {name})*): ", flat)[1:]
        pairs = zip(entries[::2], entries[1::2], strict=True)
        lines = [f"- `{which}`: {said.strip().rstrip(';')}" for which, said in pairs]
        return "\n".join(lines) + ("\n\n" + after if error else "")
    return text


def described(thing: object, names: list[str] | None = None) -> str:
    """Return a docstring as Markdown. names: of the parameters or attributes that it may list."""
    parts = re.split(r"\n\s*\n", inspect.getdoc(thing) or "")
    return "\n\n".join(paragraph(part, names or []) for part in parts)


def function_section(heading: str, function: Callable[..., object], thing: object) -> str:
    """Return the section of a function or method. thing: what has its docstring."""
    names = list(inspect.signature(function).parameters)
    name = heading.rpartition(".")[2].strip("# ")
    return f"{heading}\n\n{declaration(function, name)}\n\n{described(thing, names)}\n"


def class_section(name: str, kind: type) -> Iterator[str]:
    """Give the section of one public class: what it is, then its public attributes and methods."""
    yield f"## {name}\n\n{described(kind, list(getattr(kind, '__annotations__', {})))}\n"
    for member, value in vars(kind).items():
        heading = f"\n### {name}.{member}"
        if member.startswith("_"):
            continue
        if isinstance(value, property | cached_property):
            yield f"{heading}\n\n{described(value)}\n"
        elif isinstance(value, classmethod | staticmethod):
            yield function_section(heading, value.__func__, value)
        elif inspect.isfunction(value):
            yield function_section(heading, value, value)


def python_part() -> str:
    """Return a section for each public name: functions first, then classes."""
    things = {name: getattr(render_agent, name) for name in sorted(render_agent.__all__)}
    functions = {name: thing for name, thing in things.items() if not isinstance(thing, type)}
    classes = {name: thing for name, thing in things.items() if isinstance(thing, type)}
    parts = [function_section(f"## {name}", thing, thing) for name, thing in functions.items()]
    parts += ["".join(class_section(name, thing)) for name, thing in classes.items()]
    return "\n".join(parts)


KEYWORDS_HEAD = '''"""The options of a run as keywords of `run`, `ask`, `continue_run` and `load_engine`: typed, for editors and mypy.

Written by scripts/reference.py from the declarations in `config/`: change those, then type `make docs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict

Path = str | PathLike[str]
'''

KEYWORD_CLASSES = {
    "ContinueOptions(TypedDict, total=False)": (
        "What may differ when a run is continued; None stands for what is not given.",
        CHANGEABLE - {"output"},
    ),
    "AskOptions(ContinueOptions, total=False)": (
        "All options but those that `ask` and `load_engine` take by themselves.",
        OPTIONS.keys() - CHANGEABLE - {"batch", "ply", "question", "option", "model"},
    ),
    "RunOptions(AskOptions, total=False)": (
        "All options of a run.",
        {"batch", "ply", "question", "option", "model", "output"},
    ),
}
"""The classes of the keywords: what each holds, and its options. `engine` takes objects, too, and stands apart."""


def keyword_type(name: str, hint: Any) -> str:
    """Return the annotation of an option as a keyword. hint: that of its field, which its flag is read into."""
    declared = OPTIONS[name].metadata
    text = (
        "Path" if re.search("FILE|DIR", declared.get("metavar", "")) or name == "model" else "str"
    )
    if "choices" in declared and "part" not in declared:
        return f"Literal[{', '.join(json.dumps(choice) for choice in declared['choices'])}] | None"
    if hint == tuple[int, int]:
        return "tuple[int, int] | str | None"
    if isinstance(OPTIONS[name].default, tuple):
        part = "str | float" if name == "verifier_weights" else text
        return f"{text} | Sequence[{part}] | None"
    if hint == int | str:
        return 'int | Literal["auto"] | None'
    kind = next(kind for kind in (bool, int, float, str) if hint in (kind, kind | None))
    return f"{text if kind is str else kind.__name__} | None"


def keywords_module() -> str:
    """Return the module of the typed keywords."""
    hints = get_type_hints(RunConfig)
    blocks = [KEYWORDS_HEAD]
    for head, (sentence, names) in KEYWORD_CLASSES.items():
        entries = [
            f'    {name}: {keyword_type(name, hints[name])}\n    """{OPTIONS[name].metadata["text"]}"""\n'
            for name in OPTIONS
            if name in names - {"engine"} - COMMAND_LINE.keys()
        ]
        blocks.append("\n\n" + "\n".join([f'class {head}:\n    """{sentence}"""\n', *entries]))
    return "".join(blocks)


def schema_part() -> str:
    """Return the JSON schema of a reply."""
    return f"```json\n{json.dumps(reply_schema(('ego', 'top', 'around')), indent=1)}\n```\n"


def instructions_part() -> str:
    """Return the instructions that begin every dialogue with the default options."""
    words = Prompt(9, 75.0).instructions
    return f"```text\n{words}\n```\n"


def levels_part() -> str:
    """Return the rooms of the package by level."""
    return table("level | room | what it holds", house.level_rows())


def libraries_part() -> str:
    """Return the rooms in which each heavy library may be imported."""
    return table("library | rooms", house.library_rows())


def modules_part() -> str:
    """Return a section a folder of both packages, with a row a module."""
    sections = []
    for package in ("render_agent", "render_agent_lab"):
        for folder in house.folders(package):
            name = folder.relative_to(house.TREE).as_posix()
            sections.append(
                f"## {name}/\n\n" + table("module | what it holds", house.module_rows(folder))
            )
    return "\n".join(sections)


def families_part() -> str:
    """Return the families of models that the in-process engine knows."""
    rows = [
        (
            family.name,
            ", ".join(f"`{name}`" for name in family.model_types),
            f"`{family.reuse}`" + (" and states" if family.recurrent else ""),
            f"`{family.thinking.switch}`, `{family.thinking.opens}…{family.thinking.closes}`",
            family.why,
        )
        for family in FAMILIES
    ]
    return table("family | `model_type` | kept | thinking | why not more", rows)


PARTS: dict[str, Callable[[], str]] = {
    "levels": levels_part,
    "libraries": libraries_part,
    "modules": modules_part,
    "main": main_part,
    "options": options_part,
    "commands": commands_part,
    "exit-codes": exit_codes_part,
    "environment": environment_part,
    "python": python_part,
    "schema": schema_part,
    "instructions": instructions_part,
    "families": families_part,
}


def generated(text: str) -> str:
    """Return a page with each of its generated parts as it should be. KeyError for a part of no name."""
    return PART.sub(lambda part: f"{part['name']}{part['head']}\n{PARTS[part['name']]()}\n", text)


def stale_pages() -> dict[Path, str]:
    """Return the pages, and the module of keywords, that are not as they should be, with what they should be."""
    pages = {page: page.read_text("utf-8") for page in sorted(DOCS.rglob("*.md"))}
    stale = {page: new for page, text in pages.items() if (new := generated(text)) != text}
    keywords = keywords_module()
    return stale if KEYWORDS.read_text("utf-8") == keywords else {**stale, KEYWORDS: keywords}


def main() -> int:
    """Write or check; return the exit code."""
    stale = stale_pages()
    for page, text in stale.items():
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"{page} is stale: run scripts/reference.py\n")
        else:
            page.write_text(text, "utf-8")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
