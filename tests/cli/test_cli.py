"""Options, usage errors and exit codes of the command line."""

import importlib.util
import os
import signal
import subprocess
import sys

import pytest
from factories import TREE

import render_agent
from render_agent import registry
from render_agent.cli import run as commands
from render_agent.options import RunConfig
from render_agent.runs.read import NO_RUNS

SCAN = str(TREE / "scenes" / "room01.ply")


@pytest.fixture
def call(type_in, monkeypatch, tmp_path):
    """Call the program with environment variables; return exit code, standard output and standard error."""

    def call_program(*arguments, **environment):
        # The program replaces standard output after a broken pipe.
        monkeypatch.setattr(sys, "stdout", sys.stdout)
        for name, value in environment.items():
            monkeypatch.setenv(f"RENDER_AGENT_{name}", value)
        return type_in(*arguments, folder=tmp_path)

    return call_program


@pytest.fixture
def resolve(monkeypatch, call):
    """Resolve the options of a run without running it."""
    configs = []
    monkeypatch.setattr(commands, "new_run", lambda config: configs.append(config) or 0)

    def resolve_options(*arguments, **environment):
        code, _, errors = call(*arguments, **environment)
        assert (code, len(configs)) == (0, 1), errors
        return configs.pop()

    return resolve_options


def usage_error(code, output, errors):
    """Assert that a usage error of one sentence was printed, and return the sentence."""
    assert (code, output) == (2, "")
    assert "Traceback" not in errors
    *usage, sentence = errors.strip().splitlines()
    assert all(line.startswith(("Usage:", "Try ")) or not line for line in usage)
    return sentence


def test_defaults_match_the_configuration(resolve):
    assert resolve("--batch") == RunConfig(batch=True)


def test_precedence_of_flag_environment_file_and_default(resolve, tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("max_turns: 5\nseed: 4\nfinish-together: 2\n")
    from_file = resolve("--batch", "--config", file)
    assert (from_file.max_turns, from_file.seed, from_file.finish_together) == (5, 4, 2)
    mixed = resolve(
        "--batch", "--config", file, "--finish-together", "7", MAX_TURNS="3", FINISH_TOGETHER="6"
    )
    assert (mixed.max_turns, mixed.seed, mixed.finish_together) == (3, 4, 7)


def test_config_file_can_be_named_in_the_environment(resolve, tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text(
        "batch: true\nimage_size: [320, 240]\nview_types: [top, ego]\ntype: a\nid: [1, 2]\n"
    )
    config = resolve(CONFIG=str(file))
    assert (config.batch, config.image_size, config.view_types) == (
        True,
        (320, 240),
        ("top", "ego"),
    )
    assert (config.type, config.id) == (("a",), ("1", "2"))


def test_options_can_be_set_in_the_environment(resolve):
    config = resolve(
        PLY="x.ply", QUESTION="Where?", OPTION="A. to the left;B. to the right", IMAGE_SIZE="64x48",
        VIEW_TYPES="top, ego", BATCH_SIZE="auto", QUIET="1", TEMPERATURE="0.5",
    )  # fmt: skip
    assert config == RunConfig(
        ply="x.ply", question="Where?", option=("A. to the left", "B. to the right"), image_size=(64, 48),
        view_types=("top", "ego"), quiet=True, temperature=0.5,
    )  # fmt: skip


def test_repeated_options(resolve):
    assert resolve("--batch", "--type", "a", "--type", "b").type == ("a", "b")
    assert resolve("--batch", "--view-types", "top,ego,top").view_types == ("top", "ego")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--batch", "--ply", "x.ply"], "--batch"),
        (["--engine", "scripted"], "--batch"),
        (["--batch", "--max-turns", "many"], "--max-turns"),
        (["--batch", "--max-turns", "0"], "--max-turns"),
        (["--batch", "--max-batched-turns", "-1"], "--max-batched-turns"),
        (["--batch", "--batch-size", "0"], "--batch-size"),
        (["--batch", "--finish-together", "few"], "--finish-together"),
        (["--batch", "--temperature", "nan"], "--temperature"),
        (["--batch", "--temperature", "-1"], "--temperature"),
        (["--batch", "--field-of-view", "180"], "--field-of-view"),
        (["--batch", "--image-size", "640"], "'640'"),
        (["--batch", "--image-size", "9x9"], "32 to 4096"),
        (["--batch", "--view-types", "ego,side"], "'side'"),
        (["--batch", "--views", "nowhere"], "'nowhere'"),
        (["--batch", "--limit", "0"], "--limit"),
        (["--batch", "--engine", "transfomers"], "'transformers'"),
        (["--batch", "--config", "missing.yaml"], "--config missing.yaml"),
        (["--batch", "--quiet", "--verbose"], "--verbose"),
        (["run", "--verbose", "--quiet"], "--quiet"),
        (["score", "recent"], "--judge"),
        (["--nothing"], "--nothing"),
        (["nothing"], "nothing"),
        (["--max-turns"], "--max-turns"),
    ],
)  # fmt: skip
def test_usage_error_is_one_sentence_with_exit_code_2(call, arguments, sentence):
    assert sentence in usage_error(*call(*arguments))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("max_turn: 1", "'max_turns'"),
        ("max_turns: 3.7", "wrong.yaml: --max-turns"),
        ("max_turns: true", "wrong.yaml: --max-turns"),
        ("view_types: [1]", "'1'"),
        ("view_types: []", "wrong.yaml: --view-types"),
        ("seed: 1\nseed: 2", "'seed'"),
        ("quiet: perhaps", "wrong.yaml: --quiet"),
        ("field_of_view: .nan", "--field-of-view"),
        ("[", "wrong.yaml"),
    ],
)
def test_invalid_config_file_is_a_usage_error(call, tmp_path, content, sentence):
    (tmp_path / "wrong.yaml").write_text(content)
    assert sentence in usage_error(*call("--batch", "--config", "wrong.yaml"))


@pytest.mark.parametrize(("name", "value"), [("MAX_TURNS", "many"), ("BATCH", "perhaps")])
def test_invalid_environment_is_a_usage_error(call, name, value):
    assert f"RENDER_AGENT_{name}" in usage_error(*call("--seed", "1", **{name: value}))


def test_misspelt_environment_variable_is_reported(call):
    assert call(API_KEY="k", TEST_DATA="there", LS_OUTPUT="x")[0] == 0
    sentence = usage_error(*call("--seed", "1", MAX_TURNZ="3"))
    assert "RENDER_AGENT_MAX_TURNZ" in sentence
    assert "RENDER_AGENT_MAX_TURNS" in sentence


def test_without_arguments_the_help_is_shown(call):
    code, output, errors = call()
    assert (code, errors) == (0, "")
    assert output == call("--help")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["batch"], "'batch'"),
        (["reprot"], "'report'"),
        (["report", "recent", "--batch-size", "3"], "--batch-size"),
        (["ls", "--config", "c.yaml"], "--config"),
        (["--ply", "scan.ply", "--question", "?", "--option", "left"], "--option"),
        ("--batch --benchmark rooms --model small --engine-option quantization=int4".split(), "4bit, 8bit"),
        (["--batch", "--benchmark", "rooms", "--limit", "few"], "'--limit': 'few'"),
        (["audit", "rooms", "--folds", "1"], "'--folds': 1"),
        (["show", "--turn"], "--turn"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused_with_a_suggestion(call, tmp_path, words, sentence):
    (tmp_path / "scan.ply").touch()
    code, output, errors = call(*words)
    assert (code, output) == (2, "")
    assert sentence in errors
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert not (tmp_path / "experiment_logs").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["bundle", "--to", "PLACE/x.zip"],
        ["export", "--format", "csv", "--to", "PLACE/x"],
        ["audit", "rooms", "--to", "PLACE/x"],
        ["compare", "a", "b", "--page", "PLACE/deep/er"],
        ["make-rooms", "--to", "PLACE/x"],
    ],
)
def test_unwritable_output_is_reported_first(call, tmp_path, words):
    place = tmp_path / "in_a_file"
    place.write_text("text")
    target = place / "folder"
    code, output, errors = call(*(word.replace("PLACE", str(target)) for word in words))
    assert (code, output) == (1, "")
    assert errors.startswith(f"error: cannot write {target}")
    assert place.read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["in_a_file"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--devices", "cpu,cuda:77"], "--devices cuda:77"),
        (["--devices", "foo"], "--devices foo"),
        (["--device", "cuda:99"], "cuda:99"),
        (["--renderer", "missing"], "'missing'"),
        (["--engine-option", "quantization=4bit"], "bitsandbytes"),
        (["--engine-option", "attn_implementation=flash_attention_2"], "flash_attn"),
        (["--engine-option", "attn_implementation=someone/kernel"], "someone/kernel"),
    ],
)
def test_missing_requirements_are_reported_before_the_run_starts(
    call, tmp_path, monkeypatch, words, sentence
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "render_agent.engines.checkpoint.pretrained.find_spec",
        lambda name: None if name in ("bitsandbytes", "flash_attn") else find(name),
    )
    code, _, errors = call("--batch", "--benchmark", "rooms", "--model", "small", *words)
    assert code == (2 if "--renderer" in words else 1)
    assert sentence in errors
    assert not (tmp_path / "experiment_logs").exists()


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--output", "elsewhere", "ls"], {}),
        (["ls", "--output", "elsewhere"], {}),
        (["ls", "--runs", "elsewhere"], {}),
        (["--config", "options.yaml", "ls"], {}),
        (["ls"], {"OUTPUT": "elsewhere"}),
    ],
)
def test_runs_folder_can_be_set_by_flag_file_and_environment(call, tmp_path, words, environment):
    (tmp_path / "options.yaml").write_text("output: elsewhere\n")
    assert call(*words, **environment)[:2] == (0, f"no runs in elsewhere. {NO_RUNS}\n")


def test_runs_folder_is_not_the_destination_of_other_commands(call, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    elsewhere = {"OUTPUT": "elsewhere", "QUESTIONS": "test.jsonl"}
    code, _, errors = call("train-verifier", "recent", "--output", "head", **elsewhere)
    assert (code, "elsewhere" in errors) == (1, True)
    assert "--runs-in DIR" in errors
    assert "--output" not in errors
    for words in (["train-verifier", "recent"], ["make-rooms"]):
        code, _, errors = call(*words)
        assert (code, "'--to'" in errors) == (2, True)
    assert call("make-rooms", "--output", "made", "--count", "0")[2].count("--count") == 1
    assert not any((tmp_path / "elsewhere").iterdir())


def test_missing_required_option_is_reported_in_one_line(call):
    code, _, errors = call("export", "recent")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "'--format'" in errors


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (("run", "--benchmark", "rooms", "--limit", "1"), ("--batch", "--benchmark", "rooms", "--limit", "1")),
        (("ask", SCAN, "How many chairs?"), ("--ply", SCAN, "--question", "How many chairs?")),
        (("--max-turns", "3", "ask", SCAN, "?"), ("ask", SCAN, "?", "--max-turns", "3")),
    ],
)  # fmt: skip
def test_run_and_ask_are_synonyms(resolve, words, same):
    assert resolve(*words, "--engine", "scripted") == resolve(*same, "--engine", "scripted")


@pytest.mark.parametrize("content", [b"hello", b"ply\nformat"])
def test_unreadable_scan_leaves_no_run_folder(call, tmp_path, content):
    (tmp_path / "scan.ply").write_bytes(content)
    code, _, errors = call("--ply", "scan.ply", "--question", "?", "--engine", "scripted")
    assert code == 1
    assert "scan.ply" in errors
    assert not (tmp_path / "experiment_logs").exists()


@pytest.mark.parametrize("command", sorted(registry.names("command")))
def test_every_command_has_help(call, command):
    code, output, _ = call(command, "--help")
    assert code == 0
    assert len(output.splitlines()) > 4


def test_version_matches_the_package(call):
    assert render_agent.__version__ in call("--version")[1]


def test_help_loads_no_heavy_library():
    program = (
        "import sys\n"
        "import render_agent.cli.main as c\n"
        "sys.argv = ['render-agent', '--help']\n"
        "try:\n    c.main()\n"
        "finally:\n    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=TREE, check=True
    )
    loaded = set(process.stderr.split())
    heavy = {"numpy", "scipy", "numba", "torch", "transformers", "open3d", "trimesh", "pyrender", "PIL", "OpenGL",
             "yaml", "matplotlib", "pandas", "msgspec"}  # fmt: skip
    assert "click" in loaded
    assert not loaded & heavy


def test_missing_benchmark_questions_error_says_what_to_download(call):
    code, output, errors = call("--batch", "--engine", "scripted")
    assert (code, output) == (1, "")
    assert len(errors.strip().splitlines()) == 1
    assert all(words in errors for words in ("nyu-visionx/VSI-Bench", "--benchmark rooms"))


def test_missing_run_is_one_sentence_with_exit_code_1(call, tmp_path):
    for arguments in (
        ["--batch", "--benchmark", "none.jsonl"],
        ["--batch", "--questions", "none.jsonl"],
        ["--ply", "none.ply", "--question", "?"],
        ["--continue", "recent"],
        ["show", "recent"],
        ["show"],  # of the newest run, as below
        ["compare", "recent", "--power", "3"],
        ["export", "--format", "messages", "--to", "x.jsonl"],
    ):
        code, output, errors = call(
            *arguments, *(["--engine", "scripted"] * arguments[0].startswith("--"))
        )
        assert (code, output, len(errors.strip().splitlines())) == (1, "", 1), (arguments, errors)
        assert errors.startswith("error: ")


def test_python_m_is_the_same_program(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RENDER_AGENT_")}
    command = [sys.executable, "-m", "render_agent", "--batch", "--ply", "x.ply"]
    path = os.pathsep.join(filter(None, [str(TREE), environment.get("PYTHONPATH", "")]))
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**environment, "PYTHONPATH": path}
    )  # fmt: skip
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
)
def test_signal_swallowed_by_an_import_still_ends_the_run(tmp_path, number, code):
    (tmp_path / "policy.py").write_text(
        "import contextlib, os, signal\n"
        "try:\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    signal.pause()\n"
        "except BaseException:  # as some libraries do\n"
        "    pass\n"
        "class Done:\n"
        "    def reply(self, request):\n"
        '        return \'{"answer": "A", "done": true}\'\n'
        "def policy(questions, seed):\n"
        "    return Done()\n"
    )
    options = "--batch --benchmark rooms --limit 1 --engine scripted --model policy.py".split()
    process = subprocess.run(
        [sys.executable, "-m", "render_agent", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(TREE)},
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    assert "--continue" in process.stderr


@pytest.mark.parametrize(
    ("raised", "code"), [(KeyboardInterrupt, 130), ("terminated", 143), (BrokenPipeError, 1)]
)
def test_exit_codes(call, monkeypatch, raised, code):
    def end(config):
        if raised == "terminated":
            signal.raise_signal(signal.SIGTERM)
        raise raised

    monkeypatch.setattr(commands, "new_run", end)
    assert call("--batch")[0] == code


@pytest.mark.parametrize("value", ["x", "0", "-2", "1.5", ""])
def test_invalid_thread_count_is_refused_in_one_sentence(value, type_in, tmp_path, monkeypatch):
    """Regression test: numba printed a traceback, also in every child process."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", value)
    code, out, err = type_in("ls", folder=tmp_path)
    assert (code, out) == (2, "")
    assert "NUMBA_NUM_THREADS" in err
    assert len(err.splitlines()) == 1
