"""The engine that asks OpenAI-compatible servers: vLLM, SGLang, llama.cpp, hosted models.

Holds the `engine`, which writes requests in the `chat_format` and sends them through `retry` to one of the `servers` by
its `client`. May import what all engines share; the library openai is imported in functions only. Start with `engine`.
"""
