"""The engine that asks a person: a page in the browser in place of the model.

Holds the `engine`, which queues requests until the person has replied, and the `page` with its templates.
"""
