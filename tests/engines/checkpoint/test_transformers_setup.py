"""Models that cannot be run are reported in one line before their weights are read."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from factories.dialogues import load_transformers_engine
from factories.models import rewrite_json, small_model
from factories.runs import make_config, make_questions

from render_agent.api.engines import load_engine
from render_agent.engines.checkpoint.locate import describe_model, find_model, has_vision_part
from render_agent.engines.transformers.transformers_options import check_options
from render_agent.errors import SetupError, UsageError
from render_agent.runs.runner import start_run


@pytest.fixture
def copy(tmp_path):
    """A copy of the small model that a test can break."""
    return Path(shutil.copytree(small_model(), tmp_path / "model"))


def loading_error(model, **options):
    """Return the message of the SetupError that loading the model raises."""
    with pytest.raises(SetupError) as caught:
        load_transformers_engine(str(model), **({"device": "cpu"} | options))
    message = str(caught.value)
    assert "\n" not in message
    return message


def finding_error(model, revision=None):
    """Return the message of the SetupError that both finding and loading the model raise."""
    with pytest.raises(SetupError) as caught:
        find_model(str(model), revision)
    assert loading_error(model, revision=revision) == str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("value", ["someone/kernel", {"text_config": "someone/kernel"}])
@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_model_does_not_choose_compiled_code(copy, key, value):
    rewrite_json(copy / "config.json", **{key: value})
    assert "someone/kernel" in loading_error(copy)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("./nowhere", "./nowhere"),
        ("/no/where", "/no/where"),
        ("~/no-such-model", "~/no-such-model"),
        ("Qwen/Qwen3-VL-8B-Instruct", "HF_HUB_OFFLINE"),
        ("Qwen3 VL", "Qwen3 VL"),
    ],
)
def test_missing_model_is_named(name, expected):
    message = finding_error(name)
    assert expected in message
    assert "--engine scripted" in message


def test_file_and_empty_directory_are_not_models(tmp_path):
    assert "config.json" in finding_error(tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    assert str(file) in finding_error(file)


def test_directory_has_no_revision(copy):
    assert "--revision" in finding_error(copy, "main")


@pytest.mark.parametrize(
    ("file", "content", "expected"),
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
def test_broken_files_are_named_before_loading(copy, file, content, expected):
    if content is None or file.endswith("index.json"):
        (copy / "model.safetensors").unlink()
    if content is not None:
        (copy / file).write_bytes(content)
    assert expected in finding_error(copy)


def test_truncated_weights_are_reported_before_loading(copy):
    weights = copy / "model.safetensors"
    os.truncate(weights, weights.stat().st_size - 1000)
    assert "safetensors" in finding_error(copy)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "qwen9_vl"}, "newer transformers"),
        ({"intermediate_size": 96}, r"layers\.0\.mlp\.down_proj\.weight .*\[64, 128\].*\[64, 96\]"),
        ({"vocab_size": 999}, r"lm_head\.weight .*, 64\].*\[999, 64\]"),
        ({"num_hidden_layers": 3}, r"layers\.2"),
    ],
)
def test_configuration_that_does_not_match_the_weights_is_rejected(copy, changes, expected):
    if "model_type" not in changes:
        text_config = json.loads((copy / "config.json").read_text("utf-8"))["text_config"]
        changes = {"text_config": text_config | changes}
    rewrite_json(copy / "config.json", **changes)
    assert re.search(expected, loading_error(copy))


def test_vision_model_without_text_output_is_rejected(copy):
    (copy / "config.json").write_text('{"model_type": "siglip"}', "utf-8")
    assert "siglip" in loading_error(copy)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("processor_config.json", "processor"),
        ("tokenizer.json", "tokenizer"),
        ("chat_template.jinja", "chat template"),
    ],
)
def test_missing_file_is_named(copy, file, expected):
    (copy / file).unlink()
    assert expected in loading_error(copy)


@pytest.mark.parametrize(
    "options", [{"dtype": "float64"}, {"device": "gpu"}, {"device": "cuda:x"}], ids=str
)
def test_unknown_dtype_and_device_names_are_rejected(options):
    ((name, value),) = options.items()
    assert f"--{name} {value}" in loading_error(small_model(), **options)


def test_missing_gpu_is_rejected():
    assert "--device cpu" in loading_error(small_model(), device="cuda:63")


@pytest.mark.parametrize(
    ("options", "expected"),
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
def test_invalid_engine_options_are_rejected_before_weights_are_read(options, expected):
    with pytest.raises(UsageError, match=expected):
        check_options(options, "qwen3_vl")


def test_nothing_is_printed_while_loading(capfd):
    load_transformers_engine(str(small_model()), device="cpu")
    assert capfd.readouterr() == ("", "")


def test_description_identifies_the_weights(copy):
    original = describe_model(str(small_model()))
    assert describe_model(str(copy)) == original
    weights = copy / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-900_000] ^= 1
    weights.write_bytes(content)
    assert describe_model(str(copy))["weights"] != original["weights"]


def test_finding_a_model_imports_neither_torch_nor_transformers():
    program = (
        "import sys; from render_agent.engines.checkpoint.locate import describe_model;"
        f"describe_model({str(small_model())!r});"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output.strip() == "[]"


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
def test_models_with_a_vision_part_take_images(config, expected):
    assert has_vision_part(config) is expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"tensor_parallel": 2}, "--engine vllm"),
        ({"engine_option": ("speed=9",)}, "speed"),
        ({"engine_option": ("reuse=all",)}, "reuse"),
        ({"engine_option": ("max_patches=2",)}, "InternVL"),
    ],
)
def test_impossible_options_are_rejected_before_the_run_folder_exists(
    tmp_path, overrides, expected
):
    questions = make_questions(tmp_path, 1)
    options = {"engine": "transformers", "model": str(small_model()), **overrides}
    with pytest.raises((UsageError, SetupError), match=expected):
        start_run(make_config(tmp_path, questions, **options))
    assert not (tmp_path / "runs").exists()


def test_tensor_parallelism_is_refused_before_a_model_is_loaded():
    with pytest.raises(UsageError, match="--engine vllm"):
        load_engine(model="no-such-model", tensor_parallel=2)
