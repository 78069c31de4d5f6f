"""A model in this process by transformers: KV cache, prefill, decode loop, constrained decoding.

Imports `engines.base` and below; torch and transformers are imported inside functions. Start with `continuous_engine`.
"""
