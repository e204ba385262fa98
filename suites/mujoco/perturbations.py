"""Misleading or meaningless appearances for any MuJoCo model (following VLM-RB, app. F.3, for MiniGrid).

They change only the model that frames are drawn with; the simulation is not affected.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array
from guidebench.suites.mujoco.drawing import LOOKS, Change

Colour = tuple[float, float, float]
INKS = np.array([(0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)], np.uint8)
"""Colours of the patterns: each pattern uses one of these and its complement, so that every channel of every patch is
at an end of its range."""
PATCHES = 8
"""Patches along the side of a pattern; a cube texture has six patterns."""
PIXELS = 8
"""Pixels along the side of a patch, so that its edges stay sharp."""
OF_MATERIAL = (0.5, 0.5, 0.5, 1.0)
"""Colour of a geom that uses its material's colour (MuJoCo's default)."""


def exchange(pairs: Sequence[tuple[str, str]]) -> Change:
    """Return a change that swaps the appearance of each pair of geoms or materials (sprite swap).

    A name is `geom:NAME` or `material:NAME`. Two materials exchange gloss and reflectance too, other pairs only their
    colour. UserError for another kind of name.
    """

    def change(model: mujoco.MjModel) -> None:
        for pair in pairs:
            (fields, row), (others, at) = (_looks(model, name) for name in pair)
            for field, other in zip(fields, others, strict=False):
                first_field, second_field = getattr(model, field), getattr(model, other)
                first_field[row], second_field[at] = second_field[at].copy(), first_field[row].copy()

    return change


def invert(names: Sequence[str], one: Colour, other: Colour) -> Change:
    """Return a change that swaps two colours on these geoms and materials, named as for `exchange` (sprite swap): `one`
    becomes `other` and the reverse; other colours stay."""

    def change(model: mujoco.MjModel) -> None:
        for (colour, *_), row in (_looks(model, name) for name in names):
            rgb = getattr(model, colour)[row, :3]
            for old, new in ((one, other), (other, one)):
                if np.allclose(rgb, old, atol=1e-3):
                    rgb[:] = new
                    break

    return change


def _looks(model: mujoco.MjModel, name: str) -> tuple[list[str], int]:
    """Return the fields of a geom's or material's appearance, its colour first, and its row in them."""
    kind, _, rest = name.partition(":")
    if kind == "geom":
        return ["geom_rgba"], model.geom(rest).id
    if kind == "material":
        return [field for field in LOOKS if field.startswith("mat_")], model.material(rest).id
    raise UserError(f"{name!r} names no look; expected geom:NAME or material:NAME")


def texture(spec: mujoco.MjSpec, seed: int) -> mujoco.MjModel:
    """Compile `spec` with two-coloured noise on everything but the world: one pattern per material and per geom without
    a material, all determined by `seed`.

    An object whose colour is in a snapshot is tinted by that colour, so that states remain distinguishable; `turned`
    replaces the usual colour.
    """
    random = np.random.default_rng(seed)
    inks = itertools.cycle(random.permutation(INKS))
    patterns: dict[str, Array] = {}

    def cover(material: Any) -> None:
        name, ink = f"noise {len(patterns)}", next(inks)
        noise = np.where(random.integers(0, 2, (6 * PATCHES, PATCHES, 1)), ink, 255 - ink).astype(np.uint8)
        patterns[name] = noise.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
        kind, flat, side = mujoco.mjtTexture.mjTEXTURE_CUBE, mujoco.mjtBuiltin.mjBUILTIN_FLAT, PATCHES * PIXELS
        spec.add_texture(name=name, type=kind, builtin=flat, width=side, height=side)
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
        material.rgba[:3] = 1

    of_world = {geom.material for geom in spec.worldbody.geoms}
    for material in spec.materials:
        if material.name not in of_world:
            cover(material)
    for geom in spec.geoms:
        if geom.parent.name == spec.worldbody.name:
            continue
        geom.rgba = OF_MATERIAL
        if not geom.material:
            geom.material = f"noisy {len(patterns)}"
            cover(spec.add_material(name=geom.material))
    model = spec.compile()
    for name, noise in patterns.items():
        start = int(model.tex_adr[model.texture(name).id])
        model.tex_data[start : start + noise.size] = noise.ravel()
    return model


def turned(model: mujoco.MjModel) -> None:
    """Rotate the channels of every colour but the world's, red to green to blue; grey stays grey (a Change)."""
    of_world = model.geom_bodyid == 0
    others = np.setdiff1d(np.arange(model.nmat), model.geom_matid[of_world])
    for rgba, rows in ((model.geom_rgba, ~of_world), (model.mat_rgba, others)):
        rgba[rows, :3] = rgba[rows][:, [2, 0, 1]]
