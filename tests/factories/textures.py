"""Textures and textured scenes."""

from dataclasses import replace

import numpy as np

from factories.rooms import mesh
from render_agent.scans.texture import Material, Texture


def checkerboard(fields=8, side=256, dark=(0, 0, 0), light=(255, 255, 255)):
    """Return a checkerboard, (side, side, 4), of fields × fields squares with a dark top left corner."""
    down, across = np.mgrid[:side, :side] * fields // side
    levels = np.where(((across + down) % 2)[..., None], light, dark)
    return with_alpha(levels)


def with_alpha(levels, alpha=255):
    """Add an alpha channel to colours, (h, w, 3)."""
    clear = np.broadcast_to(np.asarray(alpha), np.shape(levels)[:2])[..., None]
    return np.concatenate([levels, clear], axis=2).astype(np.uint8)


def quad(corners, uv=((0, 0), (1, 0), (1, 1), (0, 1))):
    """Return a quad with corners top left, top right, bottom right, bottom left, and its texture coordinates."""
    return (np.array(corners, float), np.full((4, 3), 128), np.array([[0, 1, 2], [0, 2, 3]])), uv


def textured_scene(parts, materials, numbers=None, tints=None):
    """Combine parts, as returned by `quad`, into a scene; `numbers` are their materials (default: the first)."""
    scene = mesh([part for part, _ in parts])
    numbers = [0] * len(parts) if numbers is None else numbers
    faces = np.concatenate(
        [np.full(len(part[2]), number) for (part, _), number in zip(parts, numbers, strict=True)]
    )
    uv = np.concatenate([places for _, places in parts]).astype(np.float32)
    texture = Texture(uv, faces.astype(np.int32), tuple(materials), tints)
    return replace(scene, texture=texture)


def wall(material, uv=((0, 0), (1, 0), (1, 1), (0, 1)), at=2.0, tints=None):
    """Return a wall of 4 × 3 m, `at` metres ahead along +x, whose texture is upright as seen from the origin."""
    corners = [(at, 2, 3), (at, -2, 3), (at, -2, 0), (at, 2, 0)]
    return textured_scene([quad(corners, uv)], [material], tints=tints)


def checkerboard_room(fields=40):
    """Return a room of 8 × 8 × 3 m with a checkerboard floor, a striped wall and a wall of one colour."""
    stripes = np.zeros((64, 64, 3))
    stripes[:, ::2] = (200, 40, 30)
    low, high = -4.0, 4.0
    parts = [
        quad([(low, high, 0), (high, high, 0), (high, low, 0), (low, low, 0)]),
        quad(
            [(high, high, 3), (high, low, 3), (high, low, 0), (high, high, 0)],
            [(0, 0), (3, 0), (3, 1), (0, 1)],
        ),
        quad(
            [(low, low, 3), (low, high, 3), (low, high, 0), (low, low, 0)],
            [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        ),
        quad([(high, low, 3), (low, low, 3), (low, low, 0), (high, low, 0)]),
    ]
    materials = [
        Material(checkerboard(fields, 512)),
        Material(with_alpha(stripes), wrap=("mirror", "clamp")),
        Material(checkerboard(4, 60, (20, 120, 60)), tint=(0.5, 1.0, 0.25, 1.0)),
        Material(None),
    ]
    return textured_scene(parts, materials, [0, 1, 2, 3])
