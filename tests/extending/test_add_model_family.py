"""The page "add a model family" works: a package's family is found, used exactly and recorded."""

import pytest
from factories.dialogues import Dialogues, UncachedModel
from factories.families import small_family
from factories.packages import install_page

from render_agent.engines.families import model_families
from render_agent.engines.transformers.model.load import open_model
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import SetupError
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.runs.preflight import packages


@pytest.fixture
def family_from_page(tmp_path, monkeypatch):
    """The family of the docs page, without the built-in family of the same models."""
    others = tuple(f for f in model_families.FAMILIES if "mistral3" not in f.model_types)
    monkeypatch.setattr(model_families, "FAMILIES", others)
    model_families.families.cache_clear()
    assert model_families.family_of("mistral3") is model_families.OTHER
    model_families.families.cache_clear()
    install_page(monkeypatch, tmp_path, "add-a-model-family")
    yield model_families.family_of("mistral3")
    model_families.families.cache_clear()


def test_family_of_the_docs_page_reuses_its_cache_exactly(family_from_page):
    assert family_from_page.reuse == "keys"
    model = open_model("small", pretrained=small_family("mistral3"))
    assert model.inputs.family is family_from_page
    options = {"count": 2, "turns": 3, "max_new_tokens": 6}
    expected, cached = Dialogues(**options), Dialogues(**options)
    expected.run(UncachedModel(model))
    engine = ContinuousEngine(model, budget=10**8, most_rows=2)
    cached.run(engine)
    engine.scheduler.close()
    assert cached.texts == expected.texts
    assert cached.tokens[2] > 0


def test_package_of_a_family_is_recorded(family_from_page):
    parts = build(RunConfig(batch=True, benchmark="rooms", model="small"))
    assert packages(parts) == {"model family mistral3": "mistral-3 1.0"}
    scripted = build(RunConfig(batch=True, benchmark="rooms", engine="scripted", model="random"))
    assert packages(scripted) == {}


def test_entry_point_that_is_not_a_family_is_refused(family_from_page, monkeypatch):
    import mistral_3

    monkeypatch.setattr(mistral_3, "MISTRAL_3", "mistral3")
    model_families.families.cache_clear()
    with pytest.raises(SetupError, match="mistral-3"):
        model_families.families()
