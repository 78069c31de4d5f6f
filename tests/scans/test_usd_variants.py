"""USD: material networks, bindings, shapes, instancers, and everything that a stage declares but is not shown."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from factories.scans import block
from PIL import Image

from render_agent.errors import SceneError
from render_agent.scans.formats.load import load_scene
from render_agent.scans.formats.usd.stage import _metres, read_directly

POINTS, FACES = block((0, 0, 0), (4, 3, 2.6))
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)

READER = """def Shader "reader" {
    uniform token info:id = "UsdPrimvarReader_float2"
    string inputs:varname = "st"
    float2 outputs:result
}"""


def rows(values):
    return ", ".join(f"({', '.join(f'{each:g}' for each in row)})" for row in values)


def mesh(
    name="room", properties="", binding="rel material:binding = </M>", points=POINTS, st=(0.1, 0.5)
):
    texcoords = "" if st is None else (
        f"texCoord2f[] primvars:st = [{rows([st] * len(points))}] (interpolation = \"vertex\")"
    )  # fmt: skip
    return f"""def Mesh "{name}" (prepend apiSchemas = ["MaterialBindingAPI"]) {{
        point3f[] points = [{rows(points)}]
        int[] faceVertexCounts = {[3] * len(FACES)}
        int[] faceVertexIndices = {FACES.ravel().tolist()}
        uniform token subdivisionScheme = "none"
        {binding}
        {texcoords}
        {properties}
    }}"""


def material(surface, nodes="", name="M", inputs=""):
    return f"""def Material "{name}" {{
        {inputs}
        token outputs:surface.connect = </{name}/surface.outputs:surface>
        def Shader "surface" {{
            uniform token info:id = "UsdPreviewSurface"
            {surface}
            token outputs:surface
        }}
        {nodes}
    }}"""


def texture(properties="", file="asset inputs:file = @half.png@", name="texture", st="reader"):
    return f"""def Shader "{name}" {{
        uniform token info:id = "UsdUVTexture"
        {file}
        float2 inputs:st.connect = </M/{st}.outputs:result>
        {properties}
        float3 outputs:rgb
        float outputs:a
    }}"""


TEXTURED = "color3f inputs:diffuseColor.connect = </M/texture.outputs:rgb>"


def write(tmp_path, *prims, header="", name="scan.usda"):
    left_red = Image.new("RGB", (8, 8), BLUE)
    left_red.paste(RED, (0, 0, 4, 8))
    left_red.save(tmp_path / "half.png")
    Image.new("RGB", (4, 4), (0, 0, 0)).save(tmp_path / "black.png")
    path = tmp_path / name
    text = '#usda 1.0\n(\n upAxis = "Z"\n metersPerUnit = 1\n' + header + "\n)\n" + "\n".join(prims)
    # « and » are braces of dictionaries, which must stay on one line.
    path.write_text(
        re.sub(r"([{};])", r"\n\1\n", text).replace(";", "").replace("«", "{").replace("»", "}")
    )
    return path


def scan_of(tmp_path, *prims, **files):
    return read_directly(write(tmp_path, *prims, **files), 0)


def colour(scan):
    return np.median(scan.colours, axis=0)


NETWORKS = {
    "interface": (
        material(
            TEXTURED,
            texture(file="asset inputs:file.connect = </M.inputs:picture>") + READER,
            inputs="asset inputs:picture = @half.png@",
        ),
        RED,
    ),
    "value by interface": (
        material(
            "color3f inputs:diffuseColor.connect = </M.inputs:paint>",
            inputs="color3f inputs:paint = (0, 1, 0)",
        ),
        GREEN,
    ),
    "nested node graphs": (
        material(
            "color3f inputs:diffuseColor.connect = </M/outer.outputs:c>",
            """def NodeGraph "outer" {
                color3f outputs:c.connect = </M/outer/inner.outputs:c>
                def NodeGraph "inner" { color3f outputs:c.connect = </M/texture.outputs:rgb> }
            }""" + texture() + READER,
        ),
        RED,
    ),
    "primvar name by interface": (
        material(
            TEXTURED,
            texture() + READER.replace('varname = "st"', "varname.connect = </M.inputs:uv>"),
            inputs='string inputs:uv = "st"',
        ),
        RED,
    ),
    "translation": (
        material(
            TEXTURED,
            texture(st="move") + READER + """def Shader "move" {
                uniform token info:id = "UsdTransform2d"
                float2 inputs:in.connect = </M/reader.outputs:result>
                float2 inputs:translation = (0.5, 0)
                float2 outputs:result
            }""",
        ),
        BLUE,
    ),
    "rotation": (  # (0.1, 0.5) becomes (0.5 - 1, 0.1)
        material(
            TEXTURED,
            texture(st="move") + READER + """def Shader "move" {
                uniform token info:id = "UsdTransform2d"
                float2 inputs:in.connect = </M/reader.outputs:result>
                float inputs:rotation = 90
                float2 inputs:scale = (1, 0.5)
                float2 inputs:translation = (1, 0)
                float2 outputs:result
            }""",
        ),
        BLUE,
    ),
    "scale and bias": (
        material(
            TEXTURED,
            texture("float4 inputs:scale = (0, 1, 1, 1)\nfloat4 inputs:bias = (0, 1, 0, 0)") + READER,
        ),
        GREEN,
    ),
    "colour of the vertices": (
        material(
            "color3f inputs:diffuseColor.connect = </M/colours.outputs:result>",
            """def Shader "colours" {
                uniform token info:id = "UsdPrimvarReader_float3"
                string inputs:varname = "displayColor"
                float3 outputs:result
            }""",
        ),
        GREEN,
    ),
    "emission": (
        material("color3f inputs:diffuseColor = (0, 0, 0)\ncolor3f inputs:emissiveColor = (0, 1, 0)"),
        GREEN,
    ),
    "emission by texture": (
        material(
            TEXTURED.replace("texture", "dark")
            + "\ncolor3f inputs:emissiveColor.connect = </M/texture.outputs:rgb>",
            texture() + READER + texture(file="asset inputs:file = @black.png@", name="dark"),
        ),
        RED,
    ),
    "file in another case": (
        material(TEXTURED, texture(file="asset inputs:file = @C:/maps/HALF.png@") + READER),
        RED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_material_networks_are_resolved(tmp_path, name):
    text, expected = NETWORKS[name]
    green = 'color3f[] primvars:displayColor = [(0, 1, 0)] (interpolation = "constant")'
    scan = scan_of(tmp_path, mesh(properties=green if "vertices" in name else ""), text)
    assert np.abs(colour(scan) - expected).max() < 3
    assert not [note for note in scan.notes if "texture" in note or "shader" in note]


@pytest.mark.parametrize("purpose", ["preview", "full"])
def test_bindings_for_a_purpose_are_followed(tmp_path, purpose):
    plain = material("color3f inputs:diffuseColor = (0, 1, 0)", name="P")
    binding = f"rel material:binding:{purpose} = </P>"
    assert np.allclose(colour(scan_of(tmp_path, mesh(binding=binding), plain)), GREEN)


def test_material_takes_precedence_over_display_colours(tmp_path):
    red = 'color3f[] primvars:displayColor = [(1, 0, 0)] (interpolation = "constant")'
    green = material("color3f inputs:diffuseColor = (0, 1, 0)")
    assert np.allclose(colour(scan_of(tmp_path, mesh(properties=red), green)), GREEN)
    assert np.allclose(colour(scan_of(tmp_path, mesh(properties=red, binding=""))), RED)


def test_alpha_of_the_texture_makes_holes(tmp_path):
    surface = (
        TEXTURED
        + "\nfloat inputs:opacity.connect = </M/texture.outputs:a>\nfloat inputs:opacityThreshold = 0.3"
    )
    scan = scan_of(tmp_path, mesh(), material(surface, texture() + READER))
    assert scan.texture.materials[0].alpha_cutoff == pytest.approx(0.3)
    assert not scan.notes


def test_everything_that_is_not_shown_is_named(tmp_path):
    surface = (
        TEXTURED
        + """
        normal3f inputs:normal.connect = </M/bump.outputs:rgb>
        float inputs:opacity = 0.5
        color3f inputs:emissiveColor = (1, 1, 1)"""
    )
    nodes = texture() + READER + texture(name="bump")
    only = """def Material "X" {
        token outputs:mtlx:surface.connect = </X/s.outputs:out>
        def Shader "s" { uniform token info:id = "ND_standard_surface_surfaceshader"
            token outputs:out }
    }"""
    scan = scan_of(
        tmp_path,
        mesh(properties="float[] primvars:wear = [1, 2]"),
        mesh("other", binding="rel material:binding = </X>", st=None),
        mesh(
            "grey", "color3f[] primvars:displayColor = [(1, 0, 0), (0, 1, 0)]", binding="", st=None
        ),
        'def BasisCurves "hair" {}',
        'def "plant" (references = @./plants/fern.usda@) {}',
        'def "chair" (payload = </nowhere>) {}',
        'def ParticleField3DGaussianSplat "splat" {}',
        'def Camera "camera" {}',
        material(surface, nodes),
        only,
        header="startTimeCode = 1\n endTimeCode = 9",
    )
    ignored = next(note for note in scan.notes if note.startswith("ignored: "))
    for part in (
        "normal", "opacity", "emissiveColor", "material X (MaterialX)", "BasisCurves", "primvars:wear",
        "primvars:displayColor with 2 values",
        "missing reference fern.usda", "/chair", "ParticleField3DGaussianSplat", "animation",
    ):  # fmt: skip
        assert part in ignored
    assert "Camera" not in ignored
    assert "diffuseColor" not in ignored


def test_error_for_a_stage_without_meshes_lists_its_contents(tmp_path):
    path = write(tmp_path, 'def ParticleField3DGaussianSplat "splat" {}')
    with pytest.raises(SceneError, match=r"no meshes.*ParticleField3DGaussianSplat"):
        load_scene(path)


def test_damaged_mesh_is_skipped_alone(tmp_path):
    odd = mesh("odd", st=None).replace("[3, 3,", "[4, 3,", 1)
    scan = scan_of(tmp_path, mesh(st=None, binding=""), odd)
    assert len(scan.faces) == len(FACES)
    assert any("1 damaged mesh skipped: /odd" in note for note in scan.notes)
    with pytest.raises(SceneError, match="/odd: its face vertex counts"):
        scan_of(tmp_path, odd)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ('def Cube "a" { double size = 3 }', (3, 3, 3)),
        ('def Sphere "a" { double radius = 2 }', (4, 4, 4)),
        ('def Cylinder "a" { double radius = 1; double height = 5; token axis = "X" }', (5, 2, 2)),
        ('def Cone "a" { double radius = 1; double height = 5; token axis = "Y" }', (2, 5, 2)),
        ('def Capsule "a" { double radius = 1; double height = 5 }', (2, 2, 7)),
        ('def Plane "a" { double width = 2; double length = 5; token axis = "X" }', (0, 5, 2)),
        ('def Cube "a" { double3 xformOp:scale = (1, 2, 3); uniform token[] xformOpOrder = ["xformOp:scale"] }', (2, 4, 6)),
    ],
)  # fmt: skip
def test_shapes_are_tessellated(tmp_path, text, size):
    scan = scan_of(tmp_path, text)
    assert np.allclose(np.ptp(scan.points, axis=0), size, atol=0.05)
    middle = (scan.points.max(axis=0) + scan.points.min(axis=0)) / 2
    assert np.allclose(middle, 0, atol=1e-6)
    if min(size):
        corners = scan.points[scan.faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        assert ((normals * corners.mean(axis=1)).sum(axis=1) >= -1e-9).all()


def test_instancer_places_its_prototypes(tmp_path):
    text = """def PointInstancer "many" {
        double3 xformOp:translate = (0, 0, 10)
        uniform token[] xformOpOrder = ["xformOp:translate"]
        point3f[] positions = [(0, 0, 0), (10, 0, 0), (20, 0, 0), (30, 0, 0)]
        float3[] scales = [(1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)]
        int[] protoIndices = [0, 1, 0, 1]
        int64[] invisibleIds = [3]
        rel prototypes = [</many/a>, </many/b>]
        def Xform "a" {
            double3 xformOp:scale = (1, 2, 1)
            uniform token[] xformOpOrder = ["xformOp:scale"]
            def Cube "cube" {
                double size = 2
                color3f[] primvars:displayColor = [(0, 1, 0)]
            }
        }
        def Cube "b" { double size = 4 }
    }"""
    scan = scan_of(tmp_path, text)
    assert len(scan.points) == 24
    assert np.allclose(scan.points.min(axis=0), [-1, -2, 8])
    assert np.allclose(scan.points.max(axis=0), [21, 2, 12])
    assert np.allclose(scan.colours[:16:8], GREEN)
    assert not scan.notes


@pytest.mark.parametrize(
    ("attribute", "word"),
    [
        ('token visibility = "invisible"', "invisible"),
        ('uniform token purpose = "guide"', "guide"),
        ('uniform token purpose = "proxy"', "proxy"),
        ('uniform token purpose = "render"', None),
    ],
)
def test_hidden_prims_are_named_in_the_note(tmp_path, attribute, word):
    hidden = f"""def Xform "Group" {{
        {attribute}
        def Cube "inner" {{ double size = 9 }}
    }}"""
    scan = scan_of(tmp_path, 'def Cube "a" { double size = 2 }', hidden)
    assert np.ptp(scan.points[:, 0]) == (2 if word else 9)
    assert [f"{word} Group" in note for note in scan.notes] == [True] * bool(word)


def test_instancer_with_velocities_is_placed_at_its_first_time(tmp_path):
    text = """def PointInstancer "many" {
        point3f[] positions.timeSamples = « 1: [(0, 0, 0), (10, 0, 0)], 2: [(5, 5, 5), (6, 6, 6)] »
        vector3f[] velocities.timeSamples = « 1: [(1, 1, 1), (1, 1, 1)], 2: [(1, 1, 1), (1, 1, 1)] »
        int[] protoIndices = [0, 0]
        rel prototypes = </many/cube>
        def Cube "cube" { }
    }"""
    scan = scan_of(tmp_path, text)
    assert np.allclose(np.ptp(scan.points, axis=0), [12, 2, 2])


def test_concave_polygons_keep_their_area(tmp_path):
    text = """def Mesh "floor" {
        point3f[] points = [(0, 0, 0), (4, 0, 0), (4, 4, 0), (2, 1, 0), (0, 4, 0)]
        int[] faceVertexCounts = [5]
        int[] faceVertexIndices = [0, 1, 2, 3, 4]
    }"""
    scan = scan_of(tmp_path, text)
    p = scan.points[scan.faces]
    assert np.linalg.norm(np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]), axis=1).sum() / 2 == 10


@pytest.mark.parametrize(("value", "metres"), [("0.01", 0.01), ("0.0254", 0.0254), ("0", None)])
def test_unit_of_the_stage(tmp_path, value, metres):
    path = write(tmp_path, mesh(binding="", st=None))
    path.write_text(path.read_text().replace("metersPerUnit = 1", f"metersPerUnit = {value}"))
    assert read_directly(path, 0).metres == metres


def test_unit_in_single_precision():
    # pxr's Python interface writes only doubles.
    stage = SimpleNamespace(GetMetadata={"metersPerUnit": np.float32(0.01)}.get)
    assert _metres(stage) == 0.01


def test_face_sets_may_use_different_texture_coordinates(tmp_path):
    second = f"texCoord2f[] primvars:uv2 = [{rows([(0.9, 0.5)] * len(POINTS))}]"
    second += ' (interpolation = "vertex")'
    subset = """def GeomSubset "half" (prepend apiSchemas = ["MaterialBindingAPI"]) {
        uniform token elementType = "face"
        uniform token familyName = "materialBind"
        int[] indices = [0, 1, 2, 3, 4, 5]
        rel material:binding = </N>
    }"""
    second_material = (material(TEXTURED, texture() + READER.replace('"st"', '"uv2"'))).replace(
        "/M/", "/N/"
    )
    scan = scan_of(
        tmp_path,
        mesh(properties=second + "\n" + subset),
        material(TEXTURED, texture() + READER),
        second_material.replace('Material "M"', 'Material "N"'),
    )
    assert {tuple(each) for each in scan.colours.tolist()} == {RED, BLUE}
