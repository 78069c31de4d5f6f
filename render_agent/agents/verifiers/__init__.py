"""Verifiers score the candidate moves of a turn; `score_fusion.py` combines their scores.

Start with `verifier.py`, the base class, then `geometry.py`.
"""

# value of `--verifier`, without its argument -> class
VERIFIERS = {
    "random": "render_agent.agents.verifiers.random:RandomVerifier",
    "geometry": "render_agent.agents.verifiers.geometry:GeometryVerifier",
    "judge": "render_agent.agents.verifiers.judge.verifier:JudgeVerifier",
    "embedding": "render_agent.agents.verifiers.embedding:EmbeddingVerifier",
}
