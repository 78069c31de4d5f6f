"""Loads the policy for `--engine scripted --model`: a registered name, a file of replies, or a Python file."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.engines.scripted.policy import NamedPolicy, Policy
from render_agent.errors import SetupError, os_errors
from render_agent.options import RunConfig
from render_agent.tasks.input_files import InputFile, digest_of, digests_of
from render_agent.util.reasons import did_you_mean, first_line
from render_agent.util.safe_parse import parse_json, read_bounded

SUFFIXES = (".py", ".json", ".jsonl")

# Folders of installed packages, and packages that are recorded by version and commit: their modules are left out.
INSTALLED = {"site-packages", "dist-packages"}
OWN = {"render_agent", "render_agent_lab"}


def find_policy(model: str) -> NamedPolicy:
    """Return the policy for a value of `--model`."""
    if model in registry.names("scripted policy"):
        policy: NamedPolicy = registry.load("scripted policy", model)
        return policy
    path = Path(model)
    if path.suffix not in SUFFIXES or not path.is_file():
        names = ", ".join(registry.names("scripted policy"))
        raise SetupError(
            f"--engine scripted has no model {model!r}: use one of {names}, or an existing"
            f" .py, .json or .jsonl file{did_you_mean(model, registry.names('scripted policy'))}"
        )
    return policy_of_file(path)


def policy_files(model: str) -> list[InputFile]:
    """Return the files of a policy: those that `policy_of_file` reads, and the local modules that they import."""
    path = Path(model)
    if path.suffix not in SUFFIXES:
        return []
    modules = local_imports(path) if path.suffix == ".py" else []
    return [
        InputFile("policies", model, "policy", digest_of(path)),
        *(
            InputFile("policies", str(file), "module of the policy", digest, may_be_unrecorded=True)
            for file, digest in digests_of(modules).items()
        ),
    ]


class ReplayPolicy:
    """Replays lists of replies, one per turn, by question id; `*` is for all others. The last reply of a list is
    repeated.
    """

    def __init__(self, replies: Mapping[str, Sequence[str]]) -> None:
        self.replies = replies

    def reply(self, request: Request) -> str:
        """Return the prepared reply for this question and turn. Raises LookupError if the question has none."""
        texts = self.replies.get(request.question_id, self.replies.get("*"))
        if not texts:
            raise LookupError(f"there are no replies for question {request.question_id!r}")
        return texts[min(request.turn + request.restates, len(texts) - 1)]


def policy_of_file(path: Path) -> NamedPolicy:
    """Return the policy that a file defines."""
    if path.suffix == ".py":
        return _import_policy(path)
    replies = read_replies(path)
    return NamedPolicy(lambda questions, seed, config: ReplayPolicy(replies))


def read_replies(path: Path) -> dict[str, list[str]]:
    """Return the replies in a .json or .jsonl file by question id.

    The entries have the form {"id": …, "replies": [text or object, …]}; the id "*" applies to all other questions.
    """
    try:
        with os_errors(SetupError, f"read {path}"):
            text = read_bounded(path).decode("utf-8")
        if path.suffix == ".jsonl":
            rows = [parse_json(line) for line in text.split("\n") if line.strip()]
        else:
            rows = parse_json(text)
    except ValueError as error:
        raise SetupError(f"{path} is not valid JSON: {error}") from error
    replies: dict[str, list[str]] = {}
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], start=1):
        if not (isinstance(row, dict) and "id" in row and isinstance(row.get("replies"), list)):
            raise SetupError(
                f'{path}, entry {number} must have the form {{"id": …, "replies": [text or object, …]}}'
            )
        replies[str(row["id"])] = [
            reply if isinstance(reply, str) else json.dumps(reply) for reply in row["replies"]
        ]
    return replies


def _import_policy(path: Path) -> NamedPolicy:
    spec = importlib.util.spec_from_file_location(f"render_agent_policy_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up annotations there
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # user code can raise anything
        raise SetupError(f"{path} cannot be imported: {first_line(error)}") from error
    make = getattr(module, "policy", None)
    if not callable(make):
        raise SetupError(f"{path} does not define a function policy(questions, seed)")

    def build(questions: Sequence[Question], seed: int, config: RunConfig | None) -> Policy:
        try:
            policy: Policy = make(questions, seed)
        except Exception as error:  # user code can raise anything
            raise SetupError(f"policy() in {path} failed: {first_line(error)}") from error
        if not callable(getattr(policy, "reply", None)):
            raise SetupError(f"policy() in {path} must return an object with reply(request)")
        return policy

    return NamedPolicy(build, answers_probes=True)


def local_imports(path: Path) -> list[Path]:
    """Return the files of all modules that a Python file imports, directly or indirectly, from its folder or
    `sys.path`.

    The standard library, installed packages, and imports by computed names are left out.
    """
    roots = [path.parent.resolve(), *_local_roots()]
    paths, waiting = {path.resolve()}, [path]
    while waiting:
        file = waiting.pop()
        for level, name in _imported_names(file):
            folders = roots if level == 0 else [file.resolve().parents[level - 1]]
            new = set(_module_files(folders, name)) - paths
            paths |= new
            waiting += new
    return sorted(paths - {path.resolve()})


def _local_roots() -> list[Path]:
    """Return the folders of `sys.path` except those of the standard library and of installed packages."""
    standard = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    folders = [Path(entry).resolve() for entry in sys.path]
    return [
        folder
        for folder in folders
        if folder.is_dir()
        and not INSTALLED.intersection(folder.parts)
        and not standard.intersection((folder, *folder.parents))
    ]


def _imported_names(file: Path) -> Iterator[tuple[int, str]]:
    """Yield level (0 for an absolute import) and dotted name of what a file may import."""
    with suppress(OSError, ValueError, SyntaxError, RecursionError):  # reported by the import
        for node in ast.walk(ast.parse(read_bounded(file))):
            if isinstance(node, ast.Import):
                yield from ((0, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                prefix = f"{node.module}." if node.module else ""
                yield from ((node.level, f"{prefix}{alias.name}") for alias in node.names)


def _module_files(folders: list[Path], name: str) -> Iterator[Path]:
    """Yield the files of a module and its packages; the last part of the name may be a member of a module."""
    first, *rest = name.split(".")
    if first in OWN:
        return
    for folder in folders:
        package, module = folder / first, folder / f"{first}.py"
        if first == "*" or not (package.is_dir() or module.is_file()):
            continue
        initial = package / "__init__.py"
        if initial.is_file() or not module.is_file():  # a package hides a module of its name
            yield from [initial] if initial.is_file() else []
            yield from _module_files([package], ".".join(rest)) if rest else ()
        else:
            yield module
        return
