"""What the shell completes, asked as the shells ask it: by click's own protocol."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time

import click
import pytest
from factories import TREE

from render_agent import registry
from render_agent.cli import completion
from render_agent.cli.main import cli, main
from render_agent.score.official import TYPES

SCRIPTS = {
    shell: completion.get_completion_class(shell)(cli, {}, "render-agent", completion.VARIABLE)
    for shell in completion.SHELLS
}


@pytest.fixture
def complete(monkeypatch, tmp_path):
    """Return what is completed behind some words, the last of which is not yet whole, by its kind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    asked = SCRIPTS["bash"]

    def completed(*words, kind="plain"):
        *before, incomplete = words
        found = asked.get_completions(list(before), incomplete)
        return [item.value for item in found if item.type == kind]

    return completed


def make_run(folder, name):
    (folder / name).mkdir(parents=True)
    (folder / name / "config.json").write_text("{}")


RUNS = ["20261121T094750_single", "20261121T094723_batched"]


def test_names_of_runs_come_after_recent_the_newest_first(complete, tmp_path):
    for name in (*RUNS, ".half"):
        make_run(tmp_path / "experiment_logs", name)
    (tmp_path / "experiment_logs" / "no_run").mkdir()
    assert complete("--continue", "") == ["recent", *RUNS]
    for command in ("show", "rescore", "report", "view", "diagnose", "merge", "export", "compare"):
        assert complete(command, "") == ["recent", *RUNS]
    assert complete("compare", RUNS[0], "20261121T09472") == RUNS[1:]
    assert complete("train-verifier", "re") == ["recent"]
    assert complete("show", "elsewhere/", kind="dir") == ["elsewhere/"]


def test_runs_are_looked_for_where_the_command_looks(complete, tmp_path):
    make_run(tmp_path / "mine", RUNS[0])
    assert complete("--output", "mine", "--continue", "2") == RUNS[:1]
    assert complete("show", "--output", "mine", "2") == RUNS[:1]
    assert complete("train-verifier", "--runs-in", "mine", "--output", "head", "2") == RUNS[:1]
    assert complete("show", "2") == []


def test_engines_renderers_views_and_commands(complete):
    assert complete("--engine", "") == ["transformers", "vllm", "openai", "scripted", "human"]
    assert complete("--renderer", "r") == ["rasteriser"]
    assert complete("--views", "t") == ["top", "tour"]
    assert complete("--pictures", "m") == ["mirrored"]
    assert complete("com") == ["compare", "completion"]
    assert complete("completion", "") == ["bash", "zsh", "fish"]
    assert complete("--max-t") == ["--max-turns"]
    assert complete("bench", "v") == ["verifiers"]


def test_a_list_of_kinds_goes_on_behind_its_comma(complete):
    assert complete("--kinds", "") == ["ego", "top", "around"]
    assert complete("--kinds", "top,") == ["top,ego", "top,around"]
    assert complete("--kinds", "top,ego,a") == ["top,ego,around"]


def test_models_are_those_of_the_engine(complete, tmp_path):
    for folder in ("models--Qwen--Qwen3-VL-2B-Instruct", "datasets--nyu-visionx--VSI-Bench"):
        (tmp_path / "hub" / folder).mkdir(parents=True)
    assert complete("--model", "") == ["small", "Qwen/Qwen3-VL-2B-Instruct"]
    assert complete("--model", "Q") == ["Qwen/Qwen3-VL-2B-Instruct"]
    assert complete("--model", "./", kind="dir") == ["./"]
    assert complete("--engine", "scripted", "--model", "w") == ["wanderer", "witness"]
    assert set(complete("--engine", "scripted", "--model", "")) == set(
        registry.names("scripted policy")
    )


def test_what_installed_packages_bring_is_completed_too(complete, monkeypatch):
    brought = {"engine": ["magic"], "kind of view": ["depth"], "benchmark": ["presence"]}
    monkeypatch.setattr(registry, "brought", lambda kind: brought.get(kind, []))
    assert complete("--engine", "m") == ["magic"]
    assert complete("--kinds", "ego,d") == ["ego,depth"]
    assert complete("--benchmark", "") == [*registry.built_in("benchmark"), "presence"]


def test_names_of_the_benchmark(complete):
    assert complete("--type", "") == list(TYPES)
    assert complete("--dataset", "scannet") == ["scannet", "scannetpp"]
    assert complete("--benchmark", "mine.js", kind="file") == ["mine.js"]


def every_parameter(command=cli, path=()):
    """Give every parameter of every command, with the words that stand before it."""
    for parameter in command.params:
        yield command, path, parameter
    context = click.Context(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from every_parameter(command.get_command(context, name), (*path, name))


def test_whatever_is_a_run_a_file_or_a_folder_is_completed():
    asked = 0
    for command, path, parameter in every_parameter():
        metavar = parameter.make_metavar(click.Context(command)) if parameter.name else ""
        if not any(word in metavar for word in ("FILE", "DIR", "RUN", ".jsonl", "IMAGE")):
            continue
        found = parameter.shell_complete(click.Context(command), "")
        assert [item for item in found if item.type in ("file", "dir")], (path, parameter.name)
        asked += 1
    assert asked > 25


def printed(shell, capsys, monkeypatch):
    """Return what `render-agent completion SHELL` prints."""
    monkeypatch.setattr(sys, "argv", ["render-agent", "completion", shell])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_script_ends_in_how_to_install_it(shell, capsys, monkeypatch):
    last = printed(shell, capsys, monkeypatch).rstrip().splitlines()[-1]
    assert last == f"# To install it, type: {completion.INSTALL[shell]}"
    assert f"render-agent completion {shell} > " in last


def test_an_unknown_shell_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["render-agent", "completion", "tcsh"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


@pytest.fixture
def newcomer(tmp_path):
    """Return the environment of somebody whose shell has no settings yet, and in whose folder two runs lie."""
    for name in RUNS:
        make_run(tmp_path / "experiment_logs", name)
    program = tmp_path / "bin" / "render-agent"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m render_agent "$@"\n')
    program.chmod(0o755)
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config"), "TERM": "dumb"}
    path = f"{program.parent}:{os.environ['PATH']}"
    return {**os.environ, **home, "PATH": path, "PYTHONPATH": str(TREE)}


def shell_says(shell, script, environment):
    """Return what a shell prints, called without a terminal."""
    given = {"cwd": environment["HOME"], "env": environment, "text": True, "check": False}
    ran = subprocess.run([shell, "-c", script], capture_output=True, **given)
    assert not ran.stderr
    return ran.stdout


def here(shell):
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not here")


@here("bash")
def test_bash_completes_once_it_is_installed(newcomer):
    shell_says("bash", completion.INSTALL["bash"], newcomer)
    # on stderr bash says that compopt is of use only where Tab was pressed
    press = (
        'source ~/.bashrc; COMP_WORDS=(render-agent show "2026"); COMP_CWORD=2;'
        ' _render_agent_completion render-agent 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert shell_says("bash", press, newcomer).split() == RUNS


@here("fish")
@pytest.mark.parametrize(
    ("words", "found"),
    [("show 2026", sorted(RUNS)), ("--kinds top,", ["top,around", "top,ego"])],
)
def test_fish_completes_once_it_is_installed(newcomer, words, found):
    shell_says("fish", completion.INSTALL["fish"], newcomer)
    press = f"complete -C 'render-agent {words}'"
    lines = shell_says("fish", press, newcomer).splitlines()
    assert sorted(line.partition("\t")[0] for line in lines) == found


@here("zsh")
def test_zsh_completes_once_it_is_installed(newcomer):
    """Tab is pressed at a terminal, as zsh completes nowhere else."""
    shell_says("zsh", completion.INSTALL["zsh"], newcomer)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(newcomer["HOME"])
        os.execvpe("zsh", ["zsh", "-i"], newcomer)
    try:
        os.write(terminal, b"render-agent --pictures mirr\t\necho done\n")
        said, end = b"", time.monotonic() + 120
        while b"mirrored" not in said and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                said += os.read(terminal, 4096)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
    assert b"--pictures mirrored" in said
    assert b"not found" not in said


def test_a_press_of_tab_loads_nothing_heavy(tmp_path):
    words = {
        "_RENDER_AGENT_COMPLETE": "zsh_complete",
        "COMP_WORDS": "render-agent --engine ",
        "COMP_CWORD": "2",
    }
    program = (
        "import sys, render_agent.cli.main as c\n"
        "sys.argv = ['render-agent']\n"
        "try:\n    c.main()\n"
        "finally:\n    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TREE,
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "plain\nscripted\n_" in ran.stdout
    heavy = {"numpy", "PIL", "rich", "yaml", "torch", "numba", "scipy", "transformers"}
    assert not heavy & set(ran.stderr.split())
