"""Wheels of packages.txt made small enough to travel: files that no step reads are left out.

dm_control is needed for `dm_control.mjcf` alone, from which OGBench builds its scene; MetaWorld's task button-press
shows four of its textures; pygame's documentation, and pictures of OGBench's robots, are for readers.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from guidebench.harness.errors import UserError

PACKAGES = Path(__file__).with_name("packages.txt")
MOST = 64 * 2**20
"""Bytes that may travel, with the repository."""
TEXTURES = ("floor2.png", "metal.png", "metal1.png", "wood2.png")
UNREAD = re.compile(
    r"dm_control/(locomotion|suite|blender|viewer|composer|manipulation|entities)/|dm_control/mujoco/testing/"
    r"|pygame/(docs|examples|tests)/|ogbench/manipspace/descriptions/[^/]+/[^/]+\.png$|OpenGL/DLLS/"
    rf"|metaworld/assets/(scene/)?textures/(?!({'|'.join(map(re.escape, TEXTURES))})$)"
)
"""Names of files in wheels that are left out."""


class Packed(NamedTuple):
    """The wheels in a folder: their bytes, and packages without a wheel."""

    size: int
    missing: list[str]


def packages() -> dict[str, str]:
    """Return the packages of packages.txt with their versions."""
    lines = (line.strip() for line in PACKAGES.read_text().splitlines())
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def plain(name: str) -> str:
    """Return a package's name as the names of wheels have it.

    >>> plain("Farama-Notifications")
    'farama_notifications'
    """
    return re.sub(r"[-_.]+", "_", name).lower()


def slim(wheel: Path) -> None:
    """Leave the files that no step reads out of a wheel, also from its record; a wheel without such is not changed."""
    with zipfile.ZipFile(wheel) as given:
        names = given.namelist()
        kept = [name for name in names if not UNREAD.match(name)]
        if len(kept) == len(names):
            return
        beside = wheel.with_suffix(".slim")
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
            for name in kept:
                content = given.read(name)
                if PurePosixPath(name).match("*.dist-info/RECORD"):
                    lines = content.decode().splitlines(keepends=True)
                    content = "".join(line for line in lines if not UNREAD.match(line.rsplit(",", 2)[0])).encode()
                made.writestr(given.getinfo(name), content, zipfile.ZIP_DEFLATED, 9)
    beside.replace(wheel)


def pack(folder: Path) -> Packed:
    """Slim the wheels in a folder; raise UserError if it has none, or two of a package."""
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise UserError(f"{folder} has no wheels; docs/performance.md shows how to download them")
    wanted = {f"{plain(name)}-{version}": name for name, version in packages().items()}
    found = ["-".join((plain(path.name.split("-")[0]), path.name.split("-")[1])) for path in wheels]
    _check_once(wheels)
    for wheel in wheels:
        slim(wheel)
    return Packed(sum(path.stat().st_size for path in wheels), [wanted[name] for name in wanted if name not in found])


def _check_once(wheels: Sequence[Path]) -> None:
    known: dict[str, str] = {}
    for path in wheels:
        package = plain(path.name.split("-")[0])
        if package in known:
            raise UserError(f"{known[package]} and {path.name} are of one package; delete one of them")
        known[package] = path.name
