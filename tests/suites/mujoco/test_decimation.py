"""Vertex clustering of a mesh small enough to count."""

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from guidebench.suites.mujoco.decimation import decimate  # noqa: E402

SIDE = 9


def sheet() -> "mujoco.MjModel":
    """Return a model of a closed, nearly flat sheet of 9 by 9 vertices 1 cm apart, once in group 2 and once in group
    1."""
    spec = mujoco.MjSpec()
    points = [(x / 100, y / 100, z) for z in (0.0, 0.02) for y in range(SIDE) for x in range(SIDE)]
    faces = []
    for layer, order in ((0, (0, 1, 2)), (1, (0, 2, 1))):
        for y in range(SIDE - 1):
            for x in range(SIDE - 1):
                corner = layer * SIDE * SIDE + y * SIDE + x
                for corners in ((corner, corner + SIDE, corner + 1), (corner + 1, corner + SIDE, corner + SIDE + 1)):
                    faces.append([corners[number] for number in order])
    hull = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
    for name in ("coarse", "fine"):
        spec.add_mesh(name=name, uservert=np.ravel(points), userface=np.ravel(faces), inertia=hull)
    for name, group in (("coarse", 2), ("fine", 1)):
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, group=group)
    return spec.compile()


def test_faces_become_fewer_only_in_the_given_groups_and_stay_near():
    model = sheet()
    coarse, fine = (model.mesh(name).id for name in ("coarse", "fine"))
    before = int(model.mesh_facenum[fine])
    assert before == 2 * 2 * (SIDE - 1) ** 2 == model.mesh_facenum[coarse]
    first, count = model.mesh_vertadr[coarse], model.mesh_vertnum[coarse]
    points = model.mesh_vert[first : first + count].copy()
    face_count = decimate(model, 0.03, (2,))
    assert face_count == model.mesh_facenum.sum() and model.mesh_facenum[fine] == before
    start, faces = model.mesh_faceadr[coarse], model.mesh_facenum[coarse]
    assert 0 < faces < before / 4
    used = model.mesh_face[start : start + faces]
    assert used.max() < count and all(len(set(face)) == 3 for face in used.tolist())
    # No two remaining vertices share a cell, and each old vertex has a remaining one within a cell's diagonal.
    vertices = points[np.unique(used)]
    assert len(np.unique(np.floor(vertices / 0.03), axis=0)) == len(vertices)
    nearest = np.linalg.norm(points[:, None] - vertices, axis=-1).min(axis=1)
    assert nearest.max() <= 0.03 * np.sqrt(3)
