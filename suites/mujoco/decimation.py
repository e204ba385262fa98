"""Meshes with fewer faces, for frames in which a robot's meshes take most of the time."""

from __future__ import annotations

import mujoco
import numpy as np

from guidebench.harness.interfaces import Array


def decimate(model: mujoco.MjModel, cell: float, groups: tuple[int, ...]) -> int:
    """Coarsen the meshes of the geoms of these groups, in a model that is only drawn; return the number of faces left
    in the model.

    Vertices within one cell of a grid, `cell` metres wide, are merged, and faces that lose a corner or repeat another
    are removed (vertex clustering, Rossignac and Borrel 1993). Positions on a mesh change by less than a cell's
    diagonal. The model must not be simulated afterwards, since its collision data are those of the full meshes.
    """
    is_mesh = model.geom_type == mujoco.mjtGeom.mjGEOM_MESH
    for mesh in np.unique(model.geom_dataid[is_mesh & np.isin(model.geom_group, groups)]):
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        corners = np.floor(model.mesh_vert[first : first + count] / cell).astype(np.int64)
        _, chosen, cluster = np.unique(_numbers(corners), return_index=True, return_inverse=True)
        start, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
        new = chosen[cluster.reshape(-1)][model.mesh_face[start : start + faces]]
        is_whole = (new[:, 0] != new[:, 1]) & (new[:, 1] != new[:, 2]) & (new[:, 2] != new[:, 0])
        _, once = np.unique(_numbers(np.sort(new[is_whole], axis=1)), return_index=True)
        remaining = np.flatnonzero(is_whole)[np.sort(once)]
        for field, values in (("mesh_face", new), ("mesh_facenormal", None), ("mesh_facetexcoord", None)):
            rows = getattr(model, field)[start : start + faces]
            rows[: len(remaining)] = (rows if values is None else values)[remaining]
        model.mesh_facenum[mesh] = len(remaining)
    return int(model.mesh_facenum.sum())


def _numbers(rows: Array) -> Array:
    """Return a number for each row of integers [n, 3]. Two rows have the same number only if they are equal; unique
    numbers are cheaper to find than unique rows."""
    if not len(rows):
        return np.zeros(0, np.int64)
    columns = rows.astype(np.int64) - rows.min(axis=0)
    numbers: Array = np.ravel_multi_index(tuple(columns.T), tuple(columns.max(axis=0) + 1))
    return numbers
