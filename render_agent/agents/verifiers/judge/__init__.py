"""A vision-language model as judge of views: how well each would help to answer a question."""
