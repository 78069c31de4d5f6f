"""What a question is shown next: who chooses its views, and what the pictures show.

It imports the core below it (scenes, questions, rendering, scoring), no engine and no run. Start in
`view_policies/base.py` and `stress/base.py`: each value of `--views` and `--pictures` is an object of these.
"""
