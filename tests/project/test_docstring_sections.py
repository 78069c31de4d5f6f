"""Sections in docstrings belong to the public names and to the base classes of plug-ins."""

import ast
import re

import render_agent
from scripts.house import TREE

# Base classes of plug-ins (docs/extending), and the methods whose sections TRL turns into the schemas of tools.
BASES = {
    "BatchingEngine", "Benchmark", "Engine", "Metric", "Policy", "QuestionType", "Renderer", "ReplyProtocol", "ReportPage",
    "Scorer", "Verifier", "ViewChooser", "ViewPolicy",
}  # fmt: skip
READ_AT_RUN_TIME = "render_agent/environments/trl.py"

SECTION = re.compile(r"^\s*(?:Args|Returns|Raises|Attributes|Yields):$", re.MULTILINE)


def documented(node, is_public):
    """Yield the classes and functions below a node, and whether each is or belongs to a public name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            public = is_public or child.name in {*render_agent.__all__, *BASES}
            yield child, public
            yield from documented(child, public)


def test_sections_belong_to_public_names():
    wrong = [
        f"{path.relative_to(TREE)}:{node.lineno} {node.name}"
        for package in ("render_agent", "render_agent_lab", "training")
        for path in (TREE / package).rglob("*.py")
        if str(path.relative_to(TREE)) != READ_AT_RUN_TIME
        for node, is_public in documented(ast.parse(path.read_text()), False)
        if not is_public and SECTION.search(ast.get_docstring(node) or "")
    ]
    assert not wrong


def test_public_names_have_docstrings():
    assert all(getattr(render_agent, name).__doc__ for name in render_agent.__all__)
