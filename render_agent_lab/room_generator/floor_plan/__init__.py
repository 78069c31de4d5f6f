"""Floor plans of homes and the shell built on them: walls, openings, floors, ways to walk.

Imports `geometry` and `room_generator.shapes`. Start with `plan`, then `random_plans`.
"""
