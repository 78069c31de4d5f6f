"""Engines answer requests: a folder per engine, and what several of them share.

Start with `engine.py`, the base class, then `scripted/`, the simplest engine.
"""

# Values of `--engine`.
ENGINES = {
    "transformers": "render_agent.engines.transformers.make_transformers:TRANSFORMERS",
    "vllm": "render_agent.engines.vllm.make_vllm:VLLM",
    "openai": "render_agent.engines.openai.openai_engine:OPENAI",
    "anthropic": "render_agent.engines.anthropic.messages_api:ANTHROPIC",
    "gemini": "render_agent.engines.gemini.generate_content:GEMINI",
    "scripted": "render_agent.engines.scripted.scripted_engine:SCRIPTED",
    "human": "render_agent.engines.human.human_engine:HUMAN",
    "mcp": "render_agent.engines.make_engine:MCP",
}

# Families of models from packages; the built-in ones are rows of `families/model_families.py`.
MODEL_FAMILIES: dict[str, str] = {}

# Values of `--model` with `--engine scripted`.
SCRIPTED_POLICIES = {
    "explorer": "render_agent.engines.scripted.blind_policies:EXPLORER",
    "random": "render_agent.engines.scripted.blind_policies:RANDOM",
    "frequency": "render_agent.engines.scripted.blind_policies:FREQUENCY",
    "wanderer": "render_agent.engines.scripted.blind_policies:WANDERER",
}
