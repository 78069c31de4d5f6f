"""Point clouds in scanner formats, written by each format's own library."""

import numpy as np


def write_las(
    path, points, colours=None, intensity=None, *, form=7, scale=0.001, times=256, vlrs=()
):
    """Write a LAS or LAZ file; 8-bit colours, (n, 3), are multiplied by `times`."""
    import laspy

    header = laspy.LasHeader(point_format=form, version="1.4" if form >= 6 else "1.2")
    header.scales, header.offsets = [scale] * 3, np.floor(points.min(axis=0))
    header.vlrs.extend(vlrs)
    las = laspy.LasData(header)
    las.x, las.y, las.z = points.T
    if colours is not None:
        las.red, las.green, las.blue = (colours.astype(np.uint16) * times).T
    if intensity is not None:
        las.intensity = intensity
    las.write(path)


def write_e57(path, scans):
    """Write an E57 file of several scans, each with its fields by name, rotation (3, 3) and translation."""
    import pye57
    from scipy.spatial.transform import Rotation

    file = pye57.E57(str(path), "w")
    for fields, turn, shift in scans:
        x, y, z, w = Rotation.from_matrix(turn).as_quat()
        file.write_scan_raw(fields, rotation=np.array([w, x, y, z]), translation=np.asarray(shift))
    file.close()


def e57_fields(points, colours=None, intensity=None):
    """Return the fields of an E57 scan by name."""
    fields = {f"cartesian{axis}": points[:, at].astype(float) for at, axis in enumerate("XYZ")}
    if colours is not None:
        names = ("colorRed", "colorGreen", "colorBlue")
        fields |= {name: colours[:, at].astype(np.uint8) for at, name in enumerate(names)}
    if intensity is not None:
        fields["intensity"] = intensity.astype(np.float32)
    return fields


def write_pcd(path, points, colours=None, intensity=None, *, kind="binary"):
    """Write a PCD file: ascii, binary or compressed."""
    import open3d

    how = {"write_ascii": kind == "ascii", "compressed": kind == "compressed"}
    if intensity is None:
        cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))
        if colours is not None:
            cloud.colors = open3d.utility.Vector3dVector(colours / 255)
        open3d.io.write_point_cloud(str(path), cloud, **how)
    else:
        cloud = open3d.t.geometry.PointCloud(open3d.core.Tensor(points.astype(np.float32)))
        cloud.point.intensity = open3d.core.Tensor(intensity.astype(np.float32)[:, None])
        open3d.t.io.write_point_cloud(str(path), cloud, **how)


def write_usd(path, points, faces, *, up="Z", metres=1.0, colours=None, kind="vertex"):
    """Write a USD file with one mesh below a node that translates it by (1, 2, 3) metres."""
    from pxr import Gf, Usd, UsdGeom, Vt

    path.unlink(missing_ok=True)
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, up)
    UsdGeom.SetStageMetersPerUnit(stage, metres)
    turn = np.eye(3) if up == "Z" else np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    node = UsdGeom.Xform.Define(stage, "/room")
    node.AddTranslateOp().Set(Gf.Vec3d(*(turn @ [1.0, 2.0, 3.0] / metres)))
    mesh = UsdGeom.Mesh.Define(stage, "/room/mesh")
    mesh.GetPointsAttr().Set(Vt.Vec3fArray.FromNumpy((points @ turn.T / metres).astype(np.float32)))
    mesh.GetFaceVertexCountsAttr().Set([len(face) for face in faces])
    mesh.GetFaceVertexIndicesAttr().Set([int(corner) for face in faces for corner in face])
    if colours is not None:
        values = Vt.Vec3fArray.FromNumpy(np.asarray(colours, np.float32))
        mesh.CreateDisplayColorPrimvar(kind).Set(values)
    stage.Save()
    return stage


def geo_keys(**values):
    """Return the GeoTIFF keys of a LAS file, given as `k1024=value`."""
    import laspy

    keys = laspy.vlrs.known.GeoKeyDirectoryVlr()
    keys.geo_keys = []
    for number, value in values.items():
        key = laspy.vlrs.known.GeoKeyEntryStruct()
        key.id, key.count, key.value_offset = int(number[1:]), 1, value
        keys.geo_keys.append(key)
    return keys
