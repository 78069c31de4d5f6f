"""LoRA adapters are merged into their base model, as by peft; those that cannot be are named before weights are read."""

import json
import shutil
import sys
import warnings
from pathlib import Path

import pytest
import torch
from factories.models import load_random_image, rewrite_json, small_model
from factories.runs import make_config, make_questions
from safetensors.torch import load_file, save_file

from render_agent.agents.verifiers.siglip import find_siglip
from render_agent.dialogue import chat
from render_agent.engines.checkpoint.locate import describe_model, find_model
from render_agent.engines.engine import Request
from render_agent.engines.make_engine import model_digest
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.start_check import plain_logits
from render_agent.engines.vllm import arguments
from render_agent.engines.vllm.vllm_engine import VllmEngine
from render_agent.errors import SetupError
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

KINDS = {
    "language": {"target_modules": ["q_proj", "v_proj", "down_proj"]},
    "vision": {"target_modules": ["qkv", "linear_fc2"], "lora_alpha": 32, "use_rslora": True},
    "all": {"target_modules": "all-linear", "use_dora": True, "rank_pattern": {"q_proj": 2}},
    "head": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
}


def train(folder, **options):
    """Write a random adapter of the small model as peft does; return the adapted model."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(small_model(), dtype=torch.float32)
    torch.manual_seed(1)
    with warnings.catch_warnings(action="ignore"):
        adapted = get_peft_model(model, LoraConfig(r=4, init_lora_weights=False, **options))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "modules_to_save" in name:
                weight.add_(torch.randn_like(weight) * 0.1)
    adapted.save_pretrained(folder)
    return adapted.eval()


def scores(loaded):
    images = [chat.image_piece("64x64-1.png"), chat.image_piece("96x64-2.png")]
    messages = [chat.message("user", chat.text("Where is the chair?"), *images)]
    prompt = loaded.inputs.prepare(Request("q", 0, messages, load_random_image))
    return plain_logits(loaded, [prompt])


@pytest.fixture(scope="module")
def base():
    return open_model(str(small_model()), device="cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    train(folder, **KINDS["language"])
    return folder


@pytest.fixture
def adapter(trained, tmp_path):
    """A copy of an adapter that a test can break."""
    return Path(shutil.copytree(trained, tmp_path / "adapter"))


def finding_error(folder):
    with pytest.raises(SetupError) as caught:
        find_model(str(folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_equal_those_of_peft(tmp_path, base, kind):
    adapted = train(tmp_path, **KINDS[kind])
    before = scores(base)
    loaded = open_model(str(tmp_path), device="cpu")
    merged = scores(loaded)
    loaded.model = adapted
    expected = scores(loaded)
    assert torch.allclose(merged, expected, atol=1e-4)
    assert not torch.allclose(merged, before, atol=1e-2)


def test_adapter_has_its_own_processor(adapter, base):
    base.inputs.processor.save_pretrained(adapter)
    template = adapter / "chat_template.jinja"
    template.write_text(template.read_text() + "\nTrained differently.")
    loaded = open_model(str(adapter), device="cpu")
    assert loaded.inputs.processor.chat_template.endswith("Trained differently.")


def test_run_records_both_digests(adapter, tmp_path):
    options = {"engine": "transformers", "model": str(adapter), "device": "cpu"}
    run = start_run(make_config(tmp_path, make_questions(tmp_path, 1), **options))
    run.close()
    engine = RunData(run.path).record["engine"]
    assert engine["base"] == str(small_model())
    assert engine["weights"] == describe_model(str(small_model()))["weights"]
    digest = model_digest(engine)
    assert {engine["weights"], engine["adapter"]} <= set(digest.split())
    tensors = load_file(adapter / WEIGHTS)
    tensors[min(tensors)] += 1
    save_file(tensors, adapter / WEIGHTS)
    changed = describe_model(str(adapter))
    assert changed["weights"] == engine["weights"]
    assert changed["adapter"] != engine["adapter"]


@pytest.mark.parametrize("base", ["./gone", "Qwen/Qwen3-VL-8B-Instruct", "~nobody/model", "."])
def test_missing_base_model_is_named(adapter, base, monkeypatch):
    monkeypatch.chdir(adapter)
    rewrite_json(adapter / CONFIG, base_model_name_or_path=base)
    message = finding_error(adapter)
    assert f"Download {base}," in message
    assert str(adapter / CONFIG) in message


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        (CONFIG, "[]", CONFIG),
        (CONFIG, '{"peft_type": "LORA"}', "base_model_name_or_path"),
        (CONFIG, '{"peft_type": "LORA", "base_model_name_or_path": null}', CONFIG),
        (CONFIG, '{"peft_type": "PREFIX_TUNING", "base_model_name_or_path": "x"}', "PREFIX_TUNING"),
        (
            CONFIG,
            '{"peft_type": "LORA", "base_model_name_or_path": "x", "megatron_config": {"a": 1},'
            ' "megatron_core": "evil"}',
            "merge it",
        ),
        (WEIGHTS, None, WEIGHTS),
        (WEIGHTS, "version https://git-lfs.github.com/spec/v1", WEIGHTS),
    ],
)
def test_adapters_that_cannot_be_merged_are_named(adapter, file, content, expected):
    (adapter / file).unlink()
    if content is not None:
        (adapter / file).write_text(content)
    assert expected in finding_error(adapter)


def test_pickled_adapter_is_not_opened(adapter):
    (adapter / WEIGHTS).rename(adapter / "adapter_model.bin")
    assert "adapter_model.bin is a pickle" in finding_error(adapter)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_adapter_beside_whole_weights_is_not_ignored(adapter, name):
    model = Path(shutil.copytree(small_model(), adapter / "model"))
    shutil.copy(adapter / name, model)
    message = finding_error(model)
    assert str(model) in message
    assert name in message


@pytest.mark.parametrize("part", ["prefix", "shape"])
def test_adapter_of_another_model_is_refused(adapter, part):
    """peft warns of names that it does not find, and leaves the base model as it is."""
    tensors = load_file(adapter / WEIGHTS)
    if part == "prefix":
        tensors = {
            name.replace("language_model", "text_model"): own for name, own in tensors.items()
        }
    else:
        tensors = {name: torch.cat([own, own], dim=-1) for name, own in tensors.items()}
    save_file(tensors, adapter / WEIGHTS)
    with pytest.raises(SetupError, match="base_model_name_or_path") as caught:
        open_model(str(adapter), device="cpu")
    assert "lora_" in str(caught.value)


def test_adapters_need_the_extra(adapter, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    assert 'pip install "render_agent[lora]"' in finding_error(adapter)


def test_other_loaders_refuse_adapters(adapter, monkeypatch):
    monkeypatch.setattr("render_agent.engines.vllm.vllm_engine.require_vllm", lambda: None)
    monkeypatch.setattr(arguments, "require_vllm", lambda: None)
    for load in (VllmEngine, find_siglip):
        with pytest.raises(SetupError, match="merge it"):
            load(str(adapter))
    with pytest.raises(SetupError, match="quantization"):
        open_model(str(adapter), device="cpu", options={"quantization": "4bit"})


def test_finding_an_adapter_imports_no_heavy_library(adapter):
    import subprocess

    program = (
        "import sys; from render_agent.engines.checkpoint.locate import describe_model;"
        f"print(describe_model({str(adapter)!r})['base']);"
        "print([name for name in ('torch', 'transformers', 'peft') if name in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert json.dumps(output.splitlines()) == json.dumps([str(small_model()), "[]"])
