"""Catalogue of furniture: every kind by name, with the label used in questions.

Labels follow VSI-Bench's vocabulary; for example, every kind of table is a "table".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from render_agent.scans.boxes import Array
from render_agent_lab.room_generator.furniture import decoration, devices, kitchen, seating, storage
from render_agent_lab.room_generator.furniture import tables_and_beds as tables
from render_agent_lab.room_generator.furniture.piece import Piece
from render_agent_lab.room_generator.shapes import Mesh


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of furniture: its label in questions, and the function that builds it."""

    label: str
    build: Callable[..., None]


CATALOGUE: dict[str, Kind] = {
    "chair": Kind("chair", seating.chair),
    "office chair": Kind("chair", seating.office_chair),
    "stool": Kind("stool", seating.stool),
    "sofa": Kind("sofa", seating.sofa),
    "armchair": Kind("armchair", seating.armchair),
    "dining table": Kind("table", tables.dining_table),
    "coffee table": Kind("table", tables.coffee_table),
    "side table": Kind("table", tables.side_table),
    "desk": Kind("table", tables.desk),
    "bed": Kind("bed", tables.bed),
    "pillow": Kind("pillow", tables.pillow),
    "blanket": Kind("blanket", tables.blanket),
    "piano": Kind("piano", tables.piano),
    "wardrobe": Kind("wardrobe", storage.wardrobe),
    "cabinet": Kind("cabinet", storage.cabinet),
    "hanging cabinet": Kind("cabinet", storage.hanging_cabinet),
    "dresser": Kind("dresser", storage.dresser),
    "nightstand": Kind("nightstand", storage.nightstand),
    "tv stand": Kind("tv stand", storage.tv_stand),
    "bookshelf": Kind("bookshelf", storage.bookshelf),
    "basket": Kind("basket", storage.basket),
    "trash bin": Kind("trash bin", storage.trash_bin),
    "backpack": Kind("backpack", storage.backpack),
    "suitcase": Kind("suitcase", storage.suitcase),
    "shoes": Kind("shoes", storage.shoes),
    "guitar": Kind("guitar", storage.guitar),
    "refrigerator": Kind("refrigerator", kitchen.refrigerator),
    "stove": Kind("stove", kitchen.stove),
    "counter": Kind("counter", kitchen.counter),
    "kitchen sink": Kind("sink", kitchen.kitchen_sink),
    "microwave": Kind("microwave", kitchen.microwave),
    "kettle": Kind("kettle", kitchen.kettle),
    "washer": Kind("washer", kitchen.washer),
    "dishwasher": Kind("dishwasher", kitchen.dishwasher),
    "exhaust fan": Kind("exhaust fan", kitchen.range_hood),
    "toilet": Kind("toilet", kitchen.toilet),
    "bathtub": Kind("bathtub", kitchen.bathtub),
    "vanity": Kind("sink", kitchen.vanity),
    "towel": Kind("towel", kitchen.towel),
    "tv": Kind("tv", devices.tv),
    "monitor": Kind("monitor", devices.monitor),
    "keyboard": Kind("keyboard", devices.keyboard),
    "laptop": Kind("laptop", devices.laptop),
    "computer tower": Kind("computer tower", devices.computer_tower),
    "printer": Kind("printer", devices.printer),
    "telephone": Kind("telephone", devices.telephone),
    "table lamp": Kind("lamp", devices.table_lamp),
    "floor lamp": Kind("lamp", devices.floor_lamp),
    "ceiling light": Kind("ceiling light", devices.ceiling_light),
    "heater": Kind("heater", devices.heater),
    "fan": Kind("fan", devices.fan),
    "plant": Kind("plant", decoration.plant),
    "small plant": Kind("plant", decoration.small_plant),
    "picture": Kind("picture", decoration.framed_picture),
    "mirror": Kind("mirror", decoration.mirror),
    "clock": Kind("clock", decoration.clock),
    "rug": Kind("rug", decoration.rug),
    "curtain": Kind("curtain", decoration.curtain),
    "whiteboard": Kind("whiteboard", decoration.whiteboard),
    "fireplace": Kind("fireplace", decoration.fireplace),
    "door": Kind("door", decoration.door_leaf),
    "window": Kind("window", decoration.window),
}


@dataclass(frozen=True, eq=False)
class BuiltPiece:
    """A finished piece: its mesh in its own frame (metres), and the height of its upper surface."""

    kind: str
    mesh: Mesh
    top: float | None

    @property
    def label(self) -> str:
        """The label used in questions."""
        return CATALOGUE[self.kind].label

    @property
    def half(self) -> Array:
        """Half of its width, depth and height, (3,) metres."""
        half: Array = (self.mesh.bounds[1] - self.mesh.bounds[0]) / 2
        return half


def build_piece(
    kind: str,
    rng: np.random.Generator,
    step: float,  # vertex spacing on large parts in metres
    **proportions: Any,
) -> BuiltPiece:
    """Build a piece of furniture, centred on the z axis, with its lowest point at z = 0."""
    piece = Piece(rng, step)
    CATALOGUE[kind].build(piece, **proportions)
    mesh = piece.mesh
    low, high = mesh.bounds
    centred = mesh.moved((-(low[0] + high[0]) / 2, -(low[1] + high[1]) / 2, -low[2]))
    return BuiltPiece(kind, centred, None if piece.top is None else piece.top - low[2])
