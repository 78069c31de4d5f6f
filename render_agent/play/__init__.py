"""A person in place of the model: the command that starts a sitting."""
