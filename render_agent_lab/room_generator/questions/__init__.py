"""VSI-Bench's questions about generated homes, balanced over their answers.

Imports `scene.room_truth`, `geometry` and `floor_plan.walkway`. Start with `balanced`.
"""
