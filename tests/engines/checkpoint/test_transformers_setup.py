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

from render_agent.engines.checkpoint.locate import (
    describe_model,
    find_model,
    takes_pictures,
)
from render_agent.engines.transformers.options import check_options
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


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "a/b/c", "~/no-such-model"])
def test_no_such_directory(name):
    sentence = told_before_loading(name)
    assert sentence.startswith(f"{name} is not a directory")
    assert "--engine scripted" in sentence


def test_a_file_is_no_model(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    assert "is a file, not a directory" in told_before_loading(file)


def test_an_empty_directory_is_no_model(tmp_path):
    assert "it has no config.json" in told_before_loading(tmp_path)


def test_a_hub_name_that_is_not_here_offline():
    sentence = told_before_loading("Qwen/Qwen3-VL-8B-Instruct")
    assert "HF_HUB_OFFLINE" in sentence
    assert "name a directory" in sentence
    assert "--engine scripted" in sentence


def test_a_name_that_is_no_name():
    assert "neither a directory nor a hub name" in told_before_loading("Qwen3 VL")


def test_a_revision_of_a_directory(copy):
    assert "--revision" in told_before_loading(copy, "main")


@pytest.mark.parametrize("content", ["{", "[]", ""])
def test_a_broken_configuration(copy, content):
    (copy / "config.json").write_text(content, "utf-8")
    assert "config.json" in told_before_loading(copy)


def test_a_model_of_text_alone(copy):
    (copy / "config.json").write_text(
        json.dumps({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}), "utf-8"
    )
    assert "is a qwen3 without a vision part" in told_before_loading(copy)


def test_a_model_that_transformers_does_not_know(copy):
    rewrite_json(copy / "config.json", model_type="qwen9_vl")
    assert "install a newer transformers" in told(copy)


def test_a_vision_model_that_writes_no_text(copy):
    (copy / "config.json").write_text(json.dumps({"model_type": "siglip"}), "utf-8")
    assert "is a siglip, which is no image-text-to-text model" in told(copy)


def test_no_weights(copy):
    (copy / "model.safetensors").unlink()
    assert "holds no weights" in told_before_loading(copy)


def test_weights_cut_off(copy):
    weights = copy / "model.safetensors"
    size = weights.stat().st_size
    os.truncate(weights, size - 1000)
    assert "is no whole safetensors file" in told_before_loading(copy)


@pytest.mark.parametrize(
    "content", [b"", b"version https://git-lfs.github.com/spec/v1\noid", b"\x02" + bytes(7) + b"[]"]
)
def test_weights_that_are_none(copy, content):
    (copy / "model.safetensors").write_bytes(content)
    assert "is no whole safetensors file" in told_before_loading(copy)


def test_a_shard_that_is_missing(copy):
    (copy / "model.safetensors").unlink()
    index = {"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    assert "model-00001-of-00002.safetensors is missing" in told_before_loading(copy)


def test_an_index_that_is_none(copy):
    (copy / "model.safetensors.index.json").write_text("[]", "utf-8")
    assert "is no index of weights" in told_before_loading(copy)


def test_weights_of_another_shape(copy):
    config = json.loads((copy / "config.json").read_text("utf-8"))
    config["text_config"]["intermediate_size"] = 96
    rewrite_json(copy / "config.json", text_config=config["text_config"])
    assert "cannot be loaded" in told(copy)


def test_weights_that_lack_some(copy):
    config = json.loads((copy / "config.json").read_text("utf-8"))
    config["text_config"]["num_hidden_layers"] = 5
    rewrite_json(copy / "config.json", text_config=config["text_config"])
    sentence = told(copy)
    assert "lacks 11 of its weights" in sentence
    assert "layers.4" in sentence


def test_no_processor(copy):
    (copy / "processor_config.json").unlink()
    assert "processor" in told(copy)


def test_no_tokenizer(copy):
    (copy / "tokenizer.json").unlink()
    assert "tokenizer" in told(copy)


def test_no_chat_template(copy):
    (copy / "chat_template.jinja").unlink()
    assert "has no chat template" in told(copy)


def test_names_that_do_not_exist():
    assert "--dtype float64" in told(small_model(), dtype="float64")
    assert "--device gpu" in told(small_model(), device="gpu")
    assert "--device cuda:x" in told(small_model(), device="cuda:x")


def test_no_cuda():
    sentence = told(small_model(), device="cuda:63")
    assert "CUDA devices" in sentence
    assert "--device cpu" in sentence


def test_engine_options():
    with pytest.raises(UsageError, match=r"--engine-option speed does not exist.*min_pixels"):
        library_engine(str(small_model()), device="cpu", options={"speed": 9})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"top_k": -1}, "top_k=-1 .*>= 0"),
        ({"top_k": 2.5}, "top_k=2.5 .*`int`"),
        ({"top_p": 0}, "top_p=0 "),
        ({"top_p": "most"}, "top_p='most' "),
        ({"min_pixels": "few"}, "min_pixels='few' "),
        ({"quantization": "5bit"}, "quantization='5bit' .*4bit, 8bit"),
        ({"memory_fraction": 1}, "memory_fraction=1 "),
        ({"most_rows": 0}, "most_rows=0 .*>= 1"),
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs='x' .*enable_thinking: false"),
    ],
)
def test_engine_options_of_wrong_values_are_refused_before_weights_are_read(given, sentence):
    with pytest.raises(UsageError, match=sentence):
        check_options(given, "qwen3_vl")


def test_bfloat16_runs_where_it_is_asked_for():
    engine = library_engine(str(small_model()), dtype="bfloat16", device="cpu")
    assert engine.describe()["dtype"] == "bfloat16"


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
def test_what_takes_pictures(config, expected):
    assert takes_pictures(config) is expected


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"tensor_parallel": 2}, "--engine vllm"),
        ({"engine_option": ("speed=9",)}, "speed does not exist"),
        ({"engine_option": ("reuse=all",)}, "keys, vision, none"),
        ({"engine_option": ("max_patches=2",)}, "InternVL"),
    ],
)
def test_what_cannot_run_is_refused_before_there_is_a_run_folder(tmp_path, more, sentence):
    questions = make_questions(tmp_path, 1)
    options = {"engine": "transformers", "model": str(small_model()), **more}
    with pytest.raises((UsageError, SetupError), match=sentence):
        start_run(make_config(tmp_path, questions, **options))
    assert not (tmp_path / "runs").exists()
