"""Run options from YAML files, and flags generated from their declarations."""

import pytest
import rich_click as click

from render_agent.cli.flags import declaration, options_of_file
from render_agent.errors import UsageError
from render_agent.options import OPTIONS, parse_options


def write_file(tmp_path, content):
    path = tmp_path / "options.yaml"
    path.write_text(content)
    return str(path)


def test_file_options_are_read_like_flags(tmp_path):
    file = write_file(
        tmp_path,
        """\
        max-turns: 5
        batch_size: auto
        quiet: true
        limit: null
        temperature: 0.5
        image_size: [320, 240]
        view_types: [ego, top]
        type: object_counting
        id: [5, 006x]
        option: ["A. left", "B. right"]
        """,
    )
    assert options_of_file(file) == {
        "max_turns": 5,
        "batch_size": "auto",
        "quiet": True,
        "temperature": 0.5,
        "image_size": (320, 240),
        "view_types": ("ego", "top"),
        "type": ("object_counting",),
        "id": ("5", "006x"),
        "option": ("A. left", "B. right"),
    }


@pytest.mark.parametrize("content", ["", "# nothing\n", "{}"])
def test_empty_file_has_no_options(tmp_path, content):
    assert options_of_file(write_file(tmp_path, content)) == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("nothing: 1", "'nothing'"),
        ("max_turns", "options"),
        ("max_turns: 9\n\tseed: 1", "line 2"),
        ("? [a]\n: b", "YAML"),
        ("max_turns: [1]", "options.yaml: --max-turns"),
        ("max_turns: {a: 1}", "--max-turns"),
        ("start: 2020-01-01", "--start"),
        ("type: [[a]]", "--type"),
    ],
)
def test_invalid_file_is_refused(tmp_path, content, reason):
    with pytest.raises(UsageError, match=reason):
        options_of_file(write_file(tmp_path, content))


def test_unreadable_file_is_named(tmp_path):
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xff")
    for path, reason in (
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "bytes.yaml", "YAML"),
    ):
        with pytest.raises(UsageError, match=rf"{path}.*{reason}"):
            options_of_file(str(path))


@pytest.mark.parametrize("name", OPTIONS)
def test_flag_defaults_match_declarations(name):
    names, settings = declaration(OPTIONS[name])
    context = click.Command("x", params=[click.Option(names, **settings)]).make_context("x", [])
    assert context.params == {name: OPTIONS[name].default}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--view-types", "top,ego"], {"view_types": "top,ego"}),
        (["--scene", "a", "--scene", "b"], {"scene": ["a", "b"]}),
        (["--image-size", "320x240"], {"image_size": "320x240"}),
        (["--batch-size", "auto"], {"batch_size": "auto"}),
        (["--max-model-len", "4096"], {"max_model_len": 4096}),
        (["--shuffle"], {"shuffle": True}),
        (["--views", "tour"], {"views": "tour"}),
    ],
)
def test_flags_are_parsed_like_keywords(words, value):
    names, settings = declaration(OPTIONS[next(iter(value))])
    context = click.Command("x", params=[click.Option(names, **settings)]).make_context("x", words)
    assert context.params == parse_options(value)
