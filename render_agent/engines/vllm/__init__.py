"""The engine that runs a model by vLLM on this machine, through its continuous batching and prefix cache.

Holds the `engine`, which hands its `requests` to vLLM's own `core`, and the `arguments` that vLLM is started with. May
import what all engines share; vLLM itself is imported in functions only. Start with `engine`.
"""
