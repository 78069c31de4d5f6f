"""The engine that asks OpenAI-compatible servers: vLLM, SGLang, llama.cpp, hosted models.

`engine` has the engine and what a run records of it; it sends `requests` through `retry` to one of the `servers`
by `client`. Imports what all engines share; the library openai is imported in functions only.
"""
