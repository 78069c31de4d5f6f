"""The engine that runs a model by vLLM on this machine, through its continuous batching and prefix cache.

`engine` hands `prompts` to vLLM's own `core` and takes its outputs in; `arguments` are what vLLM is started with.
Imports what all engines share; vLLM itself is imported in functions only. Start reading in `engine`.
"""
