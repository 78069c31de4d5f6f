"""The documentation pages and their commands."""

import re
import shlex

from factories import TREE
from render_agent.cli.main import cli

README = TREE / "README.md"
DOCS = TREE / "docs"
PAGES = [README, TREE / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(?:#[^)]*)?\)")


def read(page):
    """Return the text of a page, given by its path or its path below docs/."""
    return (DOCS / page).read_text("utf-8")


def section(page, title):
    """Return the text below a second-level heading."""
    return read(page).split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(page, *languages):
    """Return the code blocks of a page in the given languages; "" selects blocks without a language."""
    return [text for language, text in BLOCK.findall(read(page)) if language in languages]


def commands_in(page):
    """Return the `render-agent` commands in a page's code blocks."""
    lines = [line for text in blocks(page, "", "sh") for line in text.replace("\\\n", " ").splitlines()]  # fmt: skip
    commands = [line.removeprefix("$ ").removeprefix(".venv/bin/") for line in lines]
    return [line for command in commands for line in command.split(" && ") if line.startswith("render-agent ")]  # fmt: skip


def parse_command(line):
    """Parse a command line; click raises if it is invalid."""
    words = shlex.split(line, comments=True)[1:]
    context = cli.make_context("render-agent", words)
    while rest := [*context._protected_args, *context.args]:
        name, command, words = context.command.resolve_command(context, rest)
        context = command.make_context(name, words, parent=context)
        if not hasattr(command, "commands"):
            break
