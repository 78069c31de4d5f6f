"""Engines: what answers a request, and what batching, reuse of prompts and memory take.

Holds a folder for each engine (`transformers`, `vllm`, `openai`, `scripted`, `human`), the `registry` of `--engine`, and
what several of them share. May import dialogue, questions, scenes and what views show; never agents or runs. Start with
`base`, which has the protocol.
"""

ENGINES = {
    "transformers": "render_agent.engines.make_engine:TRANSFORMERS",
    "vllm": "render_agent.engines.make_engine:VLLM",
    "openai": "render_agent.engines.make_engine:OPENAI",
    "scripted": "render_agent.engines.make_engine:SCRIPTED",
    "human": "render_agent.engines.make_engine:HUMAN",
}
"""Values of `--engine`."""

SCRIPTED_POLICIES = {
    "explorer": "render_agent.engines.scripted.blind_policies:EXPLORER",
    "random": "render_agent.engines.scripted.blind_policies:RANDOM",
    "frequency": "render_agent.engines.scripted.blind_policies:FREQUENCY",
    "wanderer": "render_agent.engines.scripted.blind_policies:WANDERER",
}
"""Policies that `--engine scripted --model` names."""
