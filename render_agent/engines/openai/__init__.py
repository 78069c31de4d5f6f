"""The engine that asks OpenAI-compatible servers: vLLM, SGLang, llama.cpp, hosted models.

The `engine` writes requests in the `chat_format` and sends them by the SDK's `client`. The library openai
is imported in functions only. Start with `engine`.
"""
