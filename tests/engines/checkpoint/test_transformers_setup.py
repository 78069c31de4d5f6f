"""A model that cannot be run is told of in one sentence, before its weights are read."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from factories.dialogues import library_engine
from factories.models import rewrite_json, small_model
from factories.runs import make_config, make_questions

from render_agent.engines.checkpoint.locate import describe_model, find_model, takes_pictures
from render_agent.engines.transformers.transformers_options import check_options
from render_agent.errors import SetupError, UsageError
from render_agent.runs.runner import start_run


@pytest.fixture
def copy(tmp_path):
    """A copy of the small model that a test may break."""
    return Path(shutil.copytree(small_model(), tmp_path / "model"))


def told(model, **options):
    """The sentence that refuses the model, the same before and while loading where both can know it."""
    with pytest.raises(SetupError) as caught:
        library_engine(str(model), **({"device": "cpu"} | options))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    return sentence


def told_before_loading(model, revision=None):
    with pytest.raises(SetupError) as caught:
        find_model(str(model), revision)
    assert told(model, revision=revision) == str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("./nowhere", "./nowhere"),
        ("/no/where", "/no/where"),
        ("~/no-such-model", "~/no-such-model"),
        ("Qwen/Qwen3-VL-8B-Instruct", "HF_HUB_OFFLINE"),
        ("Qwen3 VL", "Qwen3 VL"),
    ],
)
def test_a_model_that_is_nowhere_is_named(name, named):
    sentence = told_before_loading(name)
    assert named in sentence
    assert "--engine scripted" in sentence


def test_a_file_or_an_empty_directory_is_no_model(tmp_path):
    assert "config.json" in told_before_loading(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    assert str(file) in told_before_loading(file)


def test_a_directory_has_no_revision(copy):
    assert "--revision" in told_before_loading(copy, "main")


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("config.json", b"{", "config.json"),
        ("config.json", b"[]", "config.json"),
        ("config.json", b"", "config.json"),
        ("config.json", b'{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}', "qwen3"),
        ("model.safetensors", None, "weights"),
        ("model.safetensors", b"", "safetensors"),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\noid", "safetensors"),
        ("model.safetensors", b"\x02" + bytes(7) + b"[]", "safetensors"),
        ("model.safetensors.index.json", b"[]", "index"),
        (
            "model.safetensors.index.json",
            b'{"weight_map": {"x": "model-00001-of-00002.safetensors"}}',
            "model-00001-of-00002.safetensors",
        ),
    ],
)
def test_files_that_are_broken_are_named_before_loading(copy, file, content, named):
    if content is None or file.endswith("index.json"):
        (copy / "model.safetensors").unlink()
    if content is not None:
        (copy / file).write_bytes(content)
    assert named in told_before_loading(copy)


def test_weights_that_were_cut_off_are_told_before_loading(copy):
    weights = copy / "model.safetensors"
    os.truncate(weights, weights.stat().st_size - 1000)
    assert "safetensors" in told_before_loading(copy)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model_type": "qwen9_vl"}, "newer transformers"),
        ({"intermediate_size": 96}, "cannot be loaded"),
        ({"num_hidden_layers": 5}, "layers.4"),
    ],
)
def test_a_configuration_that_does_not_go_with_the_weights(copy, changed, named):
    if "model_type" not in changed:
        text_config = json.loads((copy / "config.json").read_text("utf-8"))["text_config"]
        changed = {"text_config": text_config | changed}
    rewrite_json(copy / "config.json", **changed)
    assert named in told(copy)


def test_a_vision_model_that_writes_no_text_is_refused(copy):
    (copy / "config.json").write_text('{"model_type": "siglip"}', "utf-8")
    assert "siglip" in told(copy)


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("processor_config.json", "processor"),
        ("tokenizer.json", "tokenizer"),
        ("chat_template.jinja", "chat template"),
    ],
)
def test_a_file_that_is_missing_is_told(copy, file, named):
    (copy / file).unlink()
    assert named in told(copy)


@pytest.mark.parametrize(
    "options", [{"dtype": "float64"}, {"device": "gpu"}, {"device": "cuda:x"}], ids=str
)
def test_names_that_do_not_exist_are_refused(options):
    ((name, value),) = options.items()
    assert f"--{name} {value}" in told(small_model(), **options)


def test_a_gpu_that_is_not_there_is_refused():
    assert "--device cpu" in told(small_model(), device="cuda:63")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"top_k": -1}, "top_k=-1"),
        ({"top_k": 2.5}, "top_k=2.5"),
        ({"top_p": 0}, "top_p=0"),
        ({"top_p": "most"}, "top_p='most'"),
        ({"min_pixels": "few"}, "min_pixels='few'"),
        ({"quantization": "5bit"}, "quantization='5bit'"),
        ({"memory_fraction": 1}, "memory_fraction=1"),
        ({"most_rows": 0}, "most_rows=0"),
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs='x'"),
    ],
)
def test_engine_options_of_wrong_values_are_refused_before_weights_are_read(given, named):
    with pytest.raises(UsageError, match=named):
        check_options(given, "qwen3_vl")


def test_nothing_is_printed_while_loading(capfd):
    library_engine(str(small_model()), device="cpu")
    assert capfd.readouterr() == ("", "")


def test_a_description_tells_weights_apart(copy):
    same = describe_model(str(small_model()))
    assert describe_model(str(copy)) == same
    weights = copy / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-900_000] ^= 1
    weights.write_bytes(content)
    assert describe_model(str(copy))["weights"] != same["weights"]


def test_finding_a_model_imports_neither_torch_nor_transformers():
    program = (
        "import sys; from render_agent.engines.checkpoint.locate import describe_model;"
        f"describe_model({str(small_model())!r});"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"vision_config": {}, "architectures": ["Qwen3VLForConditionalGeneration"]}, True),
        ({"architectures": ["FuyuForCausalLM"], "vision_tower": "x"}, True),
        ({"architectures": ["LlamaForCausalLM"]}, False),
        ({"architectures": ["GPT2LMHeadModel"]}, False),
        ({}, True),
    ],
)
def test_models_with_a_vision_part_take_pictures(config, expected):
    assert takes_pictures(config) is expected


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"tensor_parallel": 2}, "--engine vllm"),
        ({"engine_option": ("speed=9",)}, "speed"),
        ({"engine_option": ("reuse=all",)}, "reuse"),
        ({"engine_option": ("max_patches=2",)}, "InternVL"),
    ],
)
def test_what_cannot_run_is_refused_before_there_is_a_run_folder(tmp_path, more, named):
    questions = make_questions(tmp_path, 1)
    options = {"engine": "transformers", "model": str(small_model()), **more}
    with pytest.raises((UsageError, SetupError), match=named):
        start_run(make_config(tmp_path, questions, **options))
    assert not (tmp_path / "runs").exists()
