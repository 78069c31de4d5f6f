"""The in-process engine: any image-text-to-text model of the transformers library.

`factory` chooses between the two ways to run one: `engine` keeps keys and values over the turns in the pages of
`kv_cache`, which `scheduler` fills by `prefill` and `decode`; `generate_engine` batches calls of the library's own
`generate`. Imports everything below `engines`. Start with `engine`, then `scheduler`.
"""
