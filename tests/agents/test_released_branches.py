"""A real model under a look-ahead of two moves: what it kept of every branch is given back."""

from dataclasses import replace

from factories.models import small_model
from factories.runs import make_questions
from factories.samples import MixedReplies, choose

from render_agent.dialogue import prompt
from render_agent.engines.transformers.engine import ContinuousEngine
from render_agent.engines.transformers.model.load import open_model


class Disguised(ContinuousEngine):
    """Does all the work of the model, and then says what the policy says: a small model says nothing."""

    def ready(self, timeout=None):
        for request, reply in super().ready(timeout):
            self.heard = {*getattr(self, "heard", ()), request.question_id}
            yield request, replace(reply, samples=tuple(MixedReplies().samples(request)))


def test_rows_and_pictures_of_every_branch_are_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(prompt, "INSTRUCTIONS", "Explore. You have {turns}. Reply with JSON.")
    engine = Disguised(open_model(str(small_model()), device="cpu"), budget=10**9, most_rows=16)
    try:
        options = {"max_turns": 3, "max_new_tokens": 2, "kinds": ("ego",)}
        _, results = choose(
            tmp_path, make_questions(tmp_path, 2), "lookahead:3:2", engine, **options
        )
        assert results["counts"]["failed"] == 0
        assert any("\x1f" in name for name in engine.heard)
        assert not engine.cache.sequences
    finally:
        engine.close()
