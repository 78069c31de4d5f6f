"""The in-process engine: any image-text-to-text model of the transformers library.

Start with `factory.py`: it chooses `transformers_engine.py`, which keeps a paged key-value cache (`kv_cache.py`) over turns, or
`generate_engine.py`, which batches calls of the library's own `generate`.
"""
