"""A small SigLIP model: batches, texts, memory, and the embedding verifier."""

import gc
import re

import numpy as np
import pytest
import torch
from factories.siglip import noise_images, small_siglip

from render_agent.agents.verifiers.embedding import EmbeddingVerifier, text_queries
from render_agent.agents.verifiers.siglip import Siglip, find_siglip, load_siglip
from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Candidate
from render_agent.engines.memory.faults import OUT_OF_MEMORY_MESSAGES
from render_agent.errors import EngineError, SetupError
from render_agent.scans.camera import Camera
from render_agent.views.provider import NextViews
from render_agent_lab.learned_verifier.encoder import EncoderInput, FeatureCache
from render_agent_lab.learned_verifier.encoder_registry import SiglipEncoder

HERE = Camera((0.0, 0.0, 1.6))
IMAGES = noise_images(5)
FILES = {f"views/{number}.png": image for number, image in enumerate(IMAGES)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    model = small_siglip(tmp_path_factory.mktemp("siglip"))
    gc.freeze()  # keep garbage collection fast after each failed batch
    return model


@pytest.fixture(scope="module")
def loaded(folder):
    return load_siglip(str(folder), "cpu")


@pytest.fixture
def model(loaded):
    return Siglip(loaded.files, loaded.model, loaded.processor)


def question(text="How many chair(s) are in this room?", kind="object_counting"):
    return Question("1", "rooms", "rooms", "room", kind, text, "number")


def context(of):
    view = View(0, "ego", "views/0.png", HERE)
    state = QuestionState(of, None, 9)
    return TurnContext(state, NextViews((view,), HERE, None), FILES.__getitem__)


def candidates(numbers):
    views = [None if n is None else View(1, "ego", f"views/{n}.png", HERE) for n in numbers]
    action = Action(forward=1)
    return [Candidate(index, "", action, "", HERE, view=view) for index, view in enumerate(views)]


def count_batches(model, monkeypatch, name):
    """Return a list that collects the size of every batch passed to the model."""
    sizes = []
    real = getattr(model.model, name)

    def counting(**inputs):
        sizes.append(len(next(iter(inputs.values()))))
        return real(**inputs)

    monkeypatch.setattr(model.model, name, counting)
    return sizes


def test_batch_equals_single_images(model):
    batch = model.images(IMAGES)
    single = [model.images([image]) for image in IMAGES]
    np.testing.assert_allclose(batch.pooled, np.concatenate([s.pooled for s in single]), atol=1e-6)
    np.testing.assert_allclose(
        batch.hidden_states, np.concatenate([s.hidden_states for s in single]), atol=1e-5
    )
    np.testing.assert_allclose(np.linalg.norm(batch.pooled, axis=1), 1, atol=1e-6)
    assert np.ptp(batch.pooled, axis=0).max() > 0.05, "images must have distinct embeddings"


def test_scores_equal_the_cosines_of_transformers(model, folder):
    from transformers import AutoModel, AutoProcessor

    verdict = EmbeddingVerifier(model=model).score(context(question()), candidates([0, 1, 2]))
    published, processor = AutoModel.from_pretrained(folder), AutoProcessor.from_pretrained(folder)
    pixels = processor.image_processor(images=IMAGES[:3], return_tensors="pt")["pixel_values"]
    ids = processor.tokenizer(
        ["a photo of a chair"], padding="max_length", max_length=64, return_tensors="pt"
    )["input_ids"]
    with torch.inference_mode():
        out = published.eval()(pixel_values=pixels, input_ids=ids)
    expected = (out.image_embeds @ out.text_embeds.T)[:, 0].numpy()
    np.testing.assert_allclose(verdict.scores[0], expected, atol=1e-6)
    assert np.ptp(expected) > 1e-3


def test_candidates_of_a_state_are_one_batch_and_texts_are_cached(model, monkeypatch):
    images = count_batches(model, monkeypatch, "get_image_features")
    texts = count_batches(model, monkeypatch, "get_text_features")
    verifier = EmbeddingVerifier(model=model)
    first = verifier.score(context(question()), candidates([0, 3, None, 3, 1]))
    second = verifier.score(context(question()), candidates([1]))
    assert images == [3, 1]  # an image shared by two candidates is embedded once
    assert texts == [1]
    assert np.isnan(first.scores[0, 2])
    assert [bool(reason) for reason in first.reasons] == [False, False, True, False, False]
    assert first.scores[0, 1] == first.scores[0, 3]
    assert second.scores[0, 0] == pytest.approx(first.scores[0, 4], abs=1e-6)


def test_score_is_the_best_of_the_named_objects_or_else_of_the_question_text(model):
    distance = question(
        "What is the distance between the sofa and the lamp (in meters)?", "object_abs_distance"
    )
    assert text_queries(distance) == ["a photo of a sofa", "a photo of a lamp"]
    area = question("What is the size of this room?", "room_size_estimation")
    assert text_queries(area) == [area.text]
    images = model.images(IMAGES).pooled
    for each in (distance, area):
        texts = text_queries(each)
        verdict = EmbeddingVerifier(model=model).score(context(each), candidates(range(5)))
        expected = (images @ model.texts(texts).pooled.T).max(1)
        np.testing.assert_allclose(verdict.scores[0], expected, atol=1e-6)


@pytest.mark.parametrize("max_batch", [1, 2, 3])
def test_batch_is_halved_when_out_of_memory(model, monkeypatch, max_batch):
    expected = model.images(IMAGES)
    real = model.model.get_image_features
    sizes = []

    def with_little_memory(pixel_values):
        sizes.append(len(pixel_values))
        if len(pixel_values) > max_batch:
            raise RuntimeError(OUT_OF_MEMORY_MESSAGES[0])
        return real(pixel_values=pixel_values)

    monkeypatch.setattr(model.model, "get_image_features", with_little_memory)
    verdict = EmbeddingVerifier(model=model).score(context(question()), candidates(range(5)))
    assert sizes[0] == 5
    assert sum(size for size in sizes if size <= max_batch) == 5
    assert verdict.events == ("out_of_memory",) * sum(size > max_batch for size in sizes)
    texts = model.texts(text_queries(question())).pooled
    np.testing.assert_allclose(verdict.scores[0], (expected.pooled @ texts.T).max(1), atol=1e-6)
    assert not model.events


def test_single_image_out_of_memory_and_other_errors_propagate(model, monkeypatch):
    def failing(pixel_values):
        raise RuntimeError(message)

    monkeypatch.setattr(model.model, "get_image_features", failing)
    message = OUT_OF_MEMORY_MESSAGES[0]
    with pytest.raises(EngineError, match="single image"):
        model.images(IMAGES)
    message = "sizes do not match"
    with pytest.raises(RuntimeError, match="sizes do not match"):
        model.images(IMAGES)


def test_models_of_other_types_are_rejected(tmp_path, folder):
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl", "vision_config": {}}')
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(SetupError, match=r"qwen3_vl.*SigLIP"):
        find_siglip(str(tmp_path))
    with pytest.raises(SetupError, match="google/siglip2-base-patch16-224") as caught:
        find_siglip("google/siglip2-base-patch16-224")
    assert "scripted" not in str(caught.value)


def test_features_are_cached_last_hidden_states(folder, monkeypatch):
    encoder = SiglipEncoder(str(folder), "cpu")
    assert (encoder.rows, encoder.columns, encoder.text, encoder.features) == (2, 2, 64, 32)
    model = encoder._model
    assert isinstance(model, Siglip)
    images = count_batches(model, monkeypatch, "get_image_features")
    texts = count_batches(model, monkeypatch, "get_text_features")
    views = [View(n, "ego", f"views/{n}.png", HERE) for n in range(3)]
    questions = [question(), question("How many sofa(s) are in this room?")]
    pairs = [(EncoderInput(view, None, HERE), each) for each in questions for view in views]
    cache = FeatureCache(encoder, FILES.__getitem__)
    all_features = cache.features(pairs)
    assert (images, texts) == ([3], [1, 1])
    assert all(
        first is second for first, second in zip(all_features, cache.features(pairs), strict=True)
    )
    assert (images, texts) == ([3], [1, 1])
    expected = model.images(IMAGES[:3]).hidden_states
    for index, features in enumerate(all_features):
        np.testing.assert_allclose(features.patches, expected[index % 3], atol=1e-6)
        np.testing.assert_allclose(
            features.text, model.texts([questions[index // 3].text]).hidden_states[0], atol=1e-6
        )
    assert all_features[0].patches is all_features[3].patches


def test_different_image_and_text_widths_are_rejected(tmp_path):
    with pytest.raises(SetupError, match=r"32 .*64"):
        SiglipEncoder(str(small_siglip(tmp_path, text_width=64)), "cpu")


def test_embeddings_that_are_not_numbers(folder):
    model = load_siglip(str(folder), "cpu")
    next(iter(model.model.vision_model.parameters())).data[0] = torch.nan
    with pytest.raises(EngineError, match=re.escape(str(folder))):
        model.images(noise_images(1))
