"""Files from outside cannot execute code: no pickle, no tagged YAML, no custom model code."""

import ast
import json
import pickle
from functools import cache
from pathlib import Path

import pytest
from factories import TREE

from render_agent.agents.verifiers.judge.rubric import load_rubric
from render_agent.cli.commands.sweep.plan import read_sweep
from render_agent.cli.flags import options_of_file
from render_agent.engines.checkpoint.locate import find_model
from render_agent.engines.checkpoint.pretrained import check_class
from render_agent.engines.checkpoint.weight_files import PICKLED, weight_files
from render_agent.engines.engine_options import engine_options
from render_agent.engines.vllm.arguments import REFUSED_ARGUMENTS, VllmOptions, engine_arguments
from render_agent.errors import SetupError, UsageError


@cache
def sources():
    """Return all parsed source files by name; lazily, because every test process collects all tests."""
    parts = ("render_agent", "render_agent_lab", "training", "examples", "scripts")
    return {
        str(path.relative_to(TREE)): ast.parse(path.read_text("utf-8"))
        for part in parts
        for path in sorted((TREE / part).rglob("*.py"))
    }


# Archives are never unpacked to disk, so names in them cannot escape; zip files are read entry by entry.
UNPACK = {"tarfile", "py7zr", "rarfile"}

UNPICKLE = UNPACK | set("pickle _pickle cPickle dill cloudpickle joblib shelve marshal".split())

# Calls that turn text into code or files. YAML has a single, bounded reader.
RUN_TEXTS = {
    "eval", "exec", "compile", "os.system", "os.popen", "yaml.load", "yaml.load_all", "yaml.safe_load",
    "yaml.unsafe_load", "yaml.full_load", "tempfile.mktemp", "shutil.unpack_archive", "__import__",
}  # fmt: skip

ONLY_FALSE = {"trust_remote_code", "allow_pickle", "shell"}


@cache
def nodes(tree):
    return list(ast.walk(tree))


def calls(tree):
    return [node for node in nodes(tree) if isinstance(node, ast.Call)]


def name_called(call):
    """Return the dotted name of the called function, or ""."""
    parts, node = [], call.func
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *parts[::-1]]) if isinstance(node, ast.Name) else ""


def is_false(node):
    return isinstance(node, ast.Constant) and node.value is False


def find_unpickling(tree):
    """Yield imports of libraries that unpickle."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] in UNPICKLE)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in UNPICKLE:
            yield node.module


def find_code_execution(tree):
    """Yield calls that turn text into code or files, with their lines."""
    for call in calls(tree):
        name = name_called(call)
        if name in RUN_TEXTS or getattr(call.func, "attr", "") in ("extract", "extractall"):
            yield call.lineno, name


def find_trusting_arguments(tree):
    """Yield lines in which an argument that must be False is not."""
    for node in nodes(tree):
        if isinstance(node, ast.keyword) and node.arg in ONLY_FALSE and not is_false(node.value):
            yield node.value.lineno
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if (
                    isinstance(key, ast.Constant)
                    and key.value in ONLY_FALSE
                    and not is_false(value)
                ):
                    yield value.lineno


def find_unsafe_loading(tree):
    """Yield lines that load something without excluding code."""
    for call in calls(tree):
        if getattr(call.func, "attr", "") not in ("load", "from_pretrained"):
            continue
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        spread = {ast.unparse(k.value) for k in call.keywords if k.arg is None}
        name = ast.unparse(call.func)
        if name == "torch.load" and keywords.get("weights_only") != "True":
            yield call.lineno
        if name.endswith(".from_pretrained"):
            required = {"WEIGHTS"} if "Model" in name else {"OFFLINE", "WEIGHTS"}
            if not (required & spread or ("Model" not in name and "trust_remote_code" in keywords)):
                yield call.lineno


@pytest.mark.parametrize(
    "finds", [find_unpickling, find_code_execution, find_trusting_arguments, find_unsafe_loading]
)
def test_sources_have_no_unsafe_calls(finds):
    result = {name: list(finds(tree)) for name, tree in sources().items()}
    assert {name: places for name, places in result.items() if places} == {}


@pytest.mark.parametrize(
    ("finds", "wrong"),
    [
        (find_unpickling, "from pickle import loads"),
        (find_unpickling, "import os, joblib.hashing"),
        (find_unpickling, "import tarfile"),
        (find_code_execution, "x = eval(y)"),
        (find_code_execution, "yaml.safe_load(text)"),
        (find_code_execution, "zipfile.ZipFile(f).extractall(d)"),
        (find_trusting_arguments, "load(trust_remote_code=given)"),
        (find_trusting_arguments, "np.load(f, allow_pickle=True)"),
        (find_trusting_arguments, "x = {'trust_remote_code': True}"),
        (find_unsafe_loading, "torch.load(f)"),
        (find_unsafe_loading, "AutoModel.from_pretrained(f, **OFFLINE)"),
        (find_unsafe_loading, "AutoProcessor.from_pretrained(f)"),
    ],
)
def test_unsafe_calls_are_detected(finds, wrong):
    assert list(finds(ast.parse(wrong)))


def test_json_and_yaml_have_one_reader_each():
    package_sources = {
        name: tree for name, tree in sources().items() if name.startswith("render_agent/")
    }
    result = {
        name
        for name, tree in package_sources.items()
        for call in calls(tree)
        if name_called(call) in ("json.loads", "json.load", "yaml.SafeLoader")
    }
    assert result == {"render_agent/util/safe_parse.py"}
    printed = {
        name
        for name, tree in package_sources.items()
        for call in calls(tree)
        if name_called(call) in ("Console", "PlainConsole")
        or (
            getattr(call.func, "attr", "") == "echo"
            and "json.dumps(" in "".join(map(ast.unparse, call.args))
        )
    }
    assert printed == {"render_agent/util/console.py"}


class Harmful:
    """Creates a file when unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"model_type": "qwen3_vl", "vision_config": {}, "architectures": ["X"]}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("ending", PICKLED)
def test_pickled_weights_are_refused_without_loading(model, tmp_path, ending):
    mark = tmp_path / "was here"
    (model / f"pytorch_model{ending}").write_bytes(pickle.dumps(Harmful(mark)))
    with pytest.raises(SetupError, match=rf"pytorch_model\{ending}.*safetensors"):
        find_model(str(model))
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["../other.safetensors", "/etc/passwd", "a/b.safetensors", "w.bin", "..", 7]
)
def test_weight_index_names_only_files_in_its_folder(model, tmp_path, name):
    (tmp_path / "other.safetensors").write_bytes(b"")
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(SetupError, match=r"model\.safetensors\.index\.json"):
        weight_files(model)


def test_model_code_is_not_run(model, tmp_path):
    mark = tmp_path / "was here"
    (model / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass C: pass\n")
    config = {"model_type": "evil", "vision_config": {}, "auto_map": {"AutoConfig": "evil.C"}}
    (model / "config.json").write_text(json.dumps(config))
    (model / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    with pytest.raises(SetupError, match="cannot read the configuration"):
        check_class(find_model(str(model)))
    assert not mark.exists()


@pytest.mark.parametrize("option", REFUSED_ARGUMENTS)
def test_vllm_options_that_load_code_are_refused(option):
    with pytest.raises(UsageError, match=f"engine-option {option} is not allowed"):
        engine_arguments("model", VllmOptions(options={option: True}), on_cpu=True)


HARMFUL_YAML = {
    "a tag": "!!python/object/apply:os.mkdir [{mark}]",
    "a new": "!!python/object/new:os.mkdir [{mark}]",
    "a module": "!!python/module:os",
    "laughter": "&a [x,x,x,x,x,x,x,x,x]",
    "itself": "&a [*a]",
    "depth": "[" * 600 + "]" * 600,
}


def billion_laughs(text, levels=9):
    """Return a "billion laughs" document, which expands to 9⁹ values."""
    lines = [f"a0: {text}"]
    lines += [
        f"a{level}: &b{level} [" + ", ".join([f"*b{level - 1}"] * 9) + "]"
        for level in range(1, levels)
    ]
    return "\n".join(lines).replace("&a [", "&b0 [", 1) + f"\nmax_turns: *b{levels - 1}\n"


@pytest.mark.parametrize("kind", HARMFUL_YAML)
def test_yaml_yields_bounded_plain_values(tmp_path, kind):
    mark = tmp_path / "was here"
    text = HARMFUL_YAML[kind].replace("{mark}", str(mark))
    content = billion_laughs(text) if kind == "laughter" else f"max_turns: {text}\n"
    file = tmp_path / "options.yaml"
    file.write_text(content)
    with pytest.raises(UsageError, match="YAML"):
        options_of_file(str(file))
    if kind == "depth":
        return  # one reader takes long enough; all others use it
    with pytest.raises(UsageError, match="YAML"):
        read_sweep(file, {}, tmp_path)
    with pytest.raises(SetupError, match="rubric"):
        load_rubric(str(file))
    if kind != "laughter":
        with pytest.raises(UsageError, match="YAML"):
            engine_options([f"x={text}"])
    assert not mark.exists()


def test_small_yaml_aliases_are_accepted(tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("view_types: &k [ego, top]\n")
    assert options_of_file(str(file)) == {"view_types": ("ego", "top")}
    assert engine_options(["extra_body={a: &x {b: 1}, c: *x}"]) == {
        "extra_body": {"a": {"b": 1}, "c": {"b": 1}}
    }
