"""OpenAI's APIs: chat completions, which vLLM, SGLang, llama.cpp and hosted models serve as well, and Responses.

Start with `openai_engine.py`.
"""
