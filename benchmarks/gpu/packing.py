"""Wheels of packages.txt in an archive small enough to travel: files that no step reads are left out.

dm_control is needed for `dm_control.mjcf` alone, from which OGBench builds its scene; MetaWorld's task button-press
shows four of its textures; pygame's documentation, and pictures of OGBench's robots, are for readers.
"""

from __future__ import annotations

import io
import re
import tarfile
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
    """The archive of a folder's wheels, and packages without a wheel."""

    archive: Path
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


def slim(wheel: Path) -> bytes:
    """Return a wheel uncompressed, without the files that no step reads, which its record does not list either."""
    made = io.BytesIO()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made, "w") as slimmed:
        for name in source.namelist():
            if UNREAD.match(name):
                continue
            content = source.read(name)
            if PurePosixPath(name).match("*.dist-info/RECORD"):
                lines = content.decode().splitlines(keepends=True)
                content = "".join(line for line in lines if not UNREAD.match(line.rsplit(",", 2)[0])).encode()
            slimmed.writestr(source.getinfo(name), content, zipfile.ZIP_STORED)
    return made.getvalue()


def pack(folder: Path) -> Packed:
    """Write the slimmed wheels of a folder into one archive beside it, `FOLDER.tar.xz`, compressed as a whole.

    A wheel compresses each file for itself; together they take little more than half of that. The folder is not
    changed. Raises UserError if it has no wheels, a broken one, or two of a package.
    """
    folder = folder.resolve()
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise UserError(f"{folder} has no wheels; docs/performance.md shows how to download them")
    package_of = {f"{plain(name)}-{version}": name for name, version in packages().items()}
    versions = ["-".join((plain(path.name.split("-")[0]), path.name.split("-")[1])) for path in wheels]
    _check_once(wheels)
    archive = folder.with_name(f"{folder.name}.tar.xz")
    beside = archive.with_name(f".{archive.name}")
    with tarfile.open(beside, "w:xz") as tar:
        for wheel in wheels:
            try:
                content = slim(wheel)
            except (zipfile.BadZipFile, UnicodeDecodeError) as error:
                beside.unlink()
                raise UserError(f"{wheel} is no whole wheel ({error}); download it again") from None
            member = tarfile.TarInfo(f"{folder.name}/{wheel.name}")
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    beside.replace(archive)
    return Packed(archive, [package_of[name] for name in package_of if name not in versions])


def _check_once(wheels: Sequence[Path]) -> None:
    wheel_of: dict[str, str] = {}
    for path in wheels:
        package = plain(path.name.split("-")[0])
        if package in wheel_of:
            raise UserError(f"{wheel_of[package]} and {path.name} are of one package; delete one of them")
        wheel_of[package] = path.name
