"""A person in place of the model: a page in the browser, behind the seam of every engine."""
