"""Commands, options, files, names and keys mentioned in the documentation exist."""

import ast
import json
import re
from configparser import ConfigParser

import click
import pytest
import yaml
from factories.documentation import (
    LINK,
    PAGES,
    README,
    TREE,
    blocks,
    commands_in,
    parse_command,
    read,
    section,
)
from factories.runs import finish_run, make_config, make_questions

import render_agent
from render_agent.cli.commands.ls import HEADINGS
from render_agent.cli.main import cli
from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.state import STATUS_LABELS
from render_agent.options import OPTIONS
from render_agent.parts.beliefs.belief_figures import LABELS as BELIEF_LABELS
from render_agent.report.answering.answering_page import AnsweringPart
from render_agent.report.diagnosis.model import Cause
from render_agent.report.result_rows import QUESTION_COLUMNS
from render_agent.runs.runner import start_run
from render_agent.score.dialogues.instruments import LABELS as INSTRUMENT_LABELS
from render_agent.score.summary import MEAN_NAMES, OFFICIAL_RAW, VSI_BENCH_SCORE
from render_agent.tasks.question_types import BUILT_IN, TASK_LABELS
from render_agent.tasks.row_files import load_questions

ARCHITECTURE = read("architecture.md")

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def test_modules_and_tests_named_on_the_security_page_exist():
    references = re.findall(r"`([a-z_/]+\.py)(?:: (\w+))?`", read(TREE / "docs" / "security.md"))
    modules = [
        (path, symbol) for path, symbol in references if not path.split("/")[-1].startswith("test_")
    ]
    assert len(modules) >= 20
    tests = re.findall(r"`(tests/[\w/]+(?:\.py)?)`", read(TREE / "docs" / "security.md"))
    assert tests
    assert not [path for path in tests if not (TREE / path).exists()]
    for path, symbol in modules:
        assert symbol in (TREE / "render_agent" / path).read_text("utf-8"), (path, symbol)


@by_page
def test_linked_files_exist(page):
    links = [(name, target) for name, target in LINK.findall(read(page)) if "://" not in target]
    assert not [target for _, target in links if not (page.parent / target).exists()]


@by_page
def test_linked_names_are_in_their_files(page):
    for name, target in LINK.findall(read(page)):
        if not (re.fullmatch(r"`\w+`", name) and target.endswith(".py")):
            continue
        tree = ast.parse((page.parent / target).read_text("utf-8"))
        assert name.strip("`") in {getattr(node, "name", None) for node in tree.body}, name


def test_named_tests_exist():
    references = re.findall(r"\[(test_\w+\.py)\]\(([^)]+)\) `(test_\w+)`", ARCHITECTURE)
    assert len(references) >= 7
    for _, target, test in references:
        source = (TREE / "docs" / target).read_text("utf-8")
        assert f"\ndef {test}(" in source, test


def test_files_named_on_the_architecture_page_exist():
    paths = set(re.findall(r"(?<![\w/])[a-z]\w*(?:/\w+)+\.py", ARCHITECTURE))
    assert len(paths) >= 15
    folders = (TREE, TREE / "render_agent")
    assert not [name for name in paths if not any((folder / name).is_file() for folder in folders)]


@by_page
def test_commands_in_blocks_parse(page):
    """Commands in docs/extending need the packages shown there; tests/extending runs them."""
    if page.parent.name != "extending":
        for line in commands_in(page):
            parse_command(line)


def test_inline_commands_parse():
    pages = [page for page in PAGES if page.name != "python.md"]  # docstrings mention only options
    lines = {line for page in pages for line in re.findall(r"`(render-agent [^`]+)`", read(page))}
    assert len(lines) >= 10
    for line in lines - {"render-agent --help"}:  # exits while it is parsed
        try:
            parse_command(line)
        except click.MissingParameter:
            assert len(line.split()) == 2, line  # only the name of a command


def test_named_options_exist():
    """Options in running text and tables, e.g. `--limit` or `--views none`."""
    existing = {"--help"}
    commands = [cli]
    while commands:
        command = commands.pop()
        existing |= {
            flag for entry in command.params for flag in (*entry.opts, *entry.secondary_opts)
        }
        if isinstance(command, click.Group):
            context = click.Context(command)
            commands += [command.get_command(context, n) for n in command.list_commands(context)]
    foreign = {
        "--strict",
        "--no-deps",
        "--wheel-dir",
        "--log-dir",
        "--times",
        "--output",
        "--reasoning-config",
        "--enable-auto-tool-choice",
        "--enable-deterministic-inference",
        "--seconds",
    }
    for page in PAGES:
        mentioned = set(re.findall(r"(?<=`)(--[a-z][a-z-]*[a-z])", read(page)))
        assert not mentioned - existing - foreign, page.name


def documented_keys(title):
    """Return the keys in a table of the run-folder page, and those that are optional."""
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", section("reference/run-folder.md", title), re.M)
    keys = [(key, meaning) for cell, meaning in rows for key in re.findall(r"`(\w+)`", cell)]
    assert len({key for key, _ in keys}) == len(keys)
    return {key for key, _ in keys}, {key for key, meaning in keys if meaning.startswith("only ")}


def assert_documented(documented, actual):
    names, optional = documented
    assert actual <= names
    assert names - actual <= optional


def test_run_folder_matches_its_page(tmp_path):
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 2), max_turns=2))
    finish_run(run)
    documented = re.findall(
        r"^ {2}([\w.]+)/? ", section("reference/run-folder.md", "Files"), re.MULTILINE
    )
    lying = {path.name for path in run.path.iterdir()}
    assert lying <= set(documented)
    assert set(documented) - lying <= {"batch_jobs.jsonl", "run.log", "run.lock"}
    config = json.loads((run.path / "config.json").read_text())
    assert_documented(documented_keys("`config.json`"), set(config))
    for name in ("questions.jsonl", "turns.jsonl"):
        for line in (run.path / name).read_text().splitlines():
            assert_documented(documented_keys(f"`{name}`"), set(json.loads(line)))
    assert documented_keys("Outcome of a move")[0] == set(Outcome.__struct_encode_fields__)
    results = json.loads((run.path / "results.json").read_text())
    assert_documented(documented_keys("`results.json`"), set(results))
    row, optional = documented_keys("A row of the results")
    assert row - optional == set(results["questions"][0])
    assert row - optional == set((run.path / "results.csv").read_text().splitlines()[0].split(","))


def label_table(title):
    """Return the rows of a table of the page of columns."""
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", section("reference/columns.md", title), re.M)
    return [(key, *rest.split(" | ")) for key, rest in rows]


def test_labels_match_their_page():
    scores = {OFFICIAL_RAW: VSI_BENCH_SCORE} | MEAN_NAMES
    tables = {
        "Scores": scores,
        "Question types": {name: record.label for name, record in BUILT_IN.items()} | TASK_LABELS,
        "Statuses": {str(status): label for status, label in STATUS_LABELS.items()},
        "Causes": {str(cause): cause.label for cause in Cause},
        "Runs": HEADINGS,
        "Maps": BELIEF_LABELS,
        "Answers over turns": AnsweringPart.labels,
        "Instruments": INSTRUMENT_LABELS,
    }
    for title, labels in tables.items():
        assert dict(label_table(title)) == dict(labels), title
    rows = [(name, place, label) for name, place, label, _ in label_table("Questions")]
    assert rows == [
        (column.name, "results" if column.saved else "export", column.header or "–")
        for column in QUESTION_COLUMNS
    ]


def test_extras_are_documented():
    documented = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \|", section("how-to/install.md", "Extras"), re.M
    )
    settings = ConfigParser()
    settings.read(TREE / "setup.cfg")
    extras = set(settings["options.extras_require"])
    assert {name for cell in documented for name in re.findall(r"`(\w+)`", cell)} == extras


def test_changeable_options_are_documented():
    documented = section("how-to/continue-a-run.md", "What may change").split("```")[0]
    mentioned = {flag.replace("-", "_") for flag in re.findall(r"`--([a-z-]+)`", documented)}
    free = {
        name
        for name, entry in OPTIONS.items()
        if entry.metadata["group"] in ("speed", "place", "display") or entry.metadata.get("free")
    }
    assert mentioned == free - {"port"}


def test_json_and_yaml_blocks_parse():
    for page in PAGES:
        for text in blocks(page, "yaml"):
            assert yaml.safe_load(text)
        for text in blocks(page, "json"):
            assert json.loads(text)


@by_page
def test_named_make_targets_exist(page):
    documented = set(re.findall(r"(?:^|`)make ([a-z]+(?:-[a-z]+)*)", read(page), re.MULTILINE))
    makefile = (TREE / "Makefile").read_text("utf-8")
    assert documented <= set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def test_citation_has_the_current_version():
    cited = (TREE / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {render_agent.__version__}\n" in cited


def test_readme_shows_the_three_uses():
    commands = "\n".join(commands_in(README))
    for use in ("--batch --questions", "--ply scenes/room01.ply", "--continue recent"):
        assert f"render-agent {use}" in commands


def test_example_questions_can_be_read(tmp_path):
    (block,) = (text for text in blocks(README, "") if "my_scans" in text)
    rows = [line for line in block.splitlines() if line.startswith("{")]
    (tmp_path / "questions.jsonl").write_text("\n".join(rows))
    questions = load_questions(tmp_path / "questions.jsonl", "mine")
    assert [question.ground_truth for question in questions] == [
        json.loads(row)["ground_truth"] for row in rows
    ]


def test_python_examples_use_public_names():
    (block,) = blocks(README, "python")
    compile(block, "README.md", "exec")
    assert set(re.findall(r"render_agent\.(\w+)", block)) <= set(render_agent.__all__)
