"""Verifiers: each scores the candidate moves of a turn, and `score_fusion` makes one score of theirs.

Holds a verifier a module (`random`, `geometry`, `embedding`) or folder (`judge`), and the `registry` of
`--verifier`. May import questions, scenes, renderers and engines, never an agent. Start with `base`, which has the
protocol.
"""

VERIFIERS = {
    "random": "render_agent.agents.verifiers.random:RandomVerifier",
    "geometry": "render_agent.agents.verifiers.geometry:GeometryVerifier",
    "judge": "render_agent.agents.verifiers.judge.verifier:JudgeVerifier",
    "embedding": "render_agent.agents.verifiers.embedding:EmbeddingVerifier",
}
"""Values of `--verifier`, without their arguments."""
