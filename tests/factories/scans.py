"""Rooms and PLY files, for tests of scenes and moves."""

import numpy as np

from render_agent.scans.scene import Scene

NUMPY = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int32": "i4", "float32": "f4",
}  # fmt: skip

FORMATS = ("ascii", "binary_little_endian", "binary_big_endian")


def rectangle(low, high):
    """Return the corners, (4, 3), and faces, (2, 3), of an axis-aligned rectangle."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    flat = int(np.flatnonzero(low == high)[0])
    u, v = (axis for axis in range(3) if axis != flat)
    points = np.tile(low, (4, 1))
    points[[1, 2], u] = high[u]
    points[[2, 3], v] = high[v]
    return points, np.array([[0, 1, 2], [0, 2, 3]])


def block(low, high):
    """Return the points and faces of the six sides of a box."""
    sides = []
    for axis in range(3):
        for end in (low[axis], high[axis]):
            first, last = list(low), list(high)
            first[axis] = last[axis] = end
            sides.append(rectangle(first, last))
    return joined(*sides)


def area(points, faces):
    """Return the area of a mesh."""
    corners = points[faces].astype(float)
    sides = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    return np.linalg.norm(np.cross(*sides), axis=1).sum() / 2


def joined(*parts):
    """Join meshes."""
    points, faces, count = [], [], 0
    for corners, triangles in parts:
        points.append(corners)
        faces.append(triangles + count)
        count += len(corners)
    return np.concatenate(points), np.concatenate(faces)


def room(*furniture, size=(6.0, 4.0, 2.7)):
    """Return a room with a corner at the origin, thin walls and furniture."""
    return joined(block((0, 0, 0), size), *furniture)


def sample_points(points, faces, count, seed=0):
    """Sample `count` points, (n, 3), evenly from a mesh."""
    random = np.random.default_rng(seed)
    corners = points[faces]
    sides = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    areas = np.linalg.norm(np.cross(*sides), axis=1)
    chosen = random.choice(len(faces), count, p=areas / areas.sum())
    u, v = random.random((2, count, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    return corners[chosen, 0] + u * sides[0][chosen] + v * sides[1][chosen]


def as_scene(points, faces=None, floor=0.0, ceiling=2.7):
    """Return a grey scene with the bounds of its points."""
    points = np.asarray(points, np.float32)
    bounds = np.array([points.min(axis=0), points.max(axis=0)], np.float64)
    colours = np.full((len(points), 3), 128, np.uint8)
    faces = None if faces is None else np.asarray(faces, np.int32)
    return Scene("made", points, colours, faces, floor, ceiling, bounds)


def ply(elements, order="binary_little_endian", newline="\n"):
    """Return the bytes of a PLY file."""
    header = ["ply", f"format {order} 1.0", "comment made for a test"]
    body = b""
    sign = ">" if order == "binary_big_endian" else "<"
    for name, properties, rows in elements:
        header.append(f"element {name} {len(rows)}")
        for entry in properties:
            words = ["list", *entry] if len(entry) == 3 else list(entry)
            header.append(" ".join(["property", *words]))
        has_lists = any(len(entry) == 3 for entry in properties)
        if order == "ascii" or has_lists or not properties or not len(rows):
            body += b"".join(_row(row, properties, order, sign, newline) for row in rows)
        else:
            body += _table(rows, [sign + NUMPY[kind] for kind, _ in properties])
    return (newline.join([*header, "end_header"]) + newline).encode() + body


def _table(rows, kinds):
    """Return the bytes of rows of numbers."""
    table = np.empty(len(rows), [(str(number), kind) for number, kind in enumerate(kinds)])
    columns = rows.T if isinstance(rows, np.ndarray) else zip(*rows, strict=True)
    for name, column in zip(table.dtype.names, columns, strict=True):
        table[name] = column
    return table.tobytes()


def _row(row, properties, order, sign, newline):
    numbers = []
    for value, entry in zip(row, properties, strict=True):
        if len(entry) == 3:
            numbers += [(entry[0], len(value)), *((entry[1], item) for item in value)]
        else:
            numbers.append((entry[0], value))
    if order == "ascii":
        words = [
            repr(float(value)) if kind[0] in "fd" else str(int(value)) for kind, value in numbers
        ]
        return (" ".join(words) + newline).encode()
    return b"".join(np.array(value, sign + NUMPY[kind]).tobytes() for kind, value in numbers)


XYZ = (("float", "x"), ("float", "y"), ("float", "z"))
RGB = (("uchar", "red"), ("uchar", "green"), ("uchar", "blue"))
CORNERS = (("uchar", "int", "vertex_indices"),)


def mesh_ply(points, faces, colours=None, order="binary_little_endian"):
    """Return the bytes of an ordinary PLY mesh."""
    if colours is None:
        vertices = ("vertex", XYZ, points)
    else:
        rows = [(*point, *colour) for point, colour in zip(points, colours, strict=True)]
        vertices = ("vertex", XYZ + RGB, rows)
    return ply([vertices, ("face", CORNERS, [(face,) for face in faces])], order)
