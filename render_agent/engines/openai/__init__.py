"""Any OpenAI-compatible server as an engine.

Imports `engines.base` and below; the SDK is imported inside functions. Start with `engine`.
"""
