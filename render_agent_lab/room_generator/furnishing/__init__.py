"""What stands in which room, and where: against walls, beside, before and on other things.

Imports `floor_plan`, `furniture` and `room_generator.item`. Start with `furnish`.
"""
