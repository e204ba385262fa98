"""Packages to carry are those of the constraints, cover what steps need, and their wheels lose only unread files."""

import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from benchmarks.gpu import packing, steps
from guidebench.harness.errors import UserError

ROOT = Path(__file__).resolve().parents[3]


def test_versions_are_those_that_the_tests_run_with() -> None:
    pinned = {}
    for file in ("benchmarks/peers.txt", "constraints.txt"):
        lines = (ROOT / file).read_text().splitlines()
        pinned |= {packing.plain(line.split("==")[0]): line.split("==")[1] for line in lines if "==" in line}
    for name, version in packing.packages().items():
        assert pinned[packing.plain(name)] == version


def test_every_module_that_a_step_needs_is_carried_or_told() -> None:
    """The file of packages names each of them, either with a version or in a comment."""
    words = packing.PACKAGES.read_text().lower()
    distributions = metadata.packages_distributions()
    for module in {module for step in steps.STEPS for module in step.needs}:
        assert any(name.lower() in words for name in distributions[module]), module


def wheel(path: Path, *names: str) -> Path:
    record = "demo-1.dist-info/RECORD"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 100)
        archive.writestr(record, "".join(f"{name},sha256=abc,100\n" for name in names) + f"{record},,\n")
    return path


def test_a_wheel_loses_what_no_step_reads_and_says_so_in_its_record(tmp_path: Path) -> None:
    packed_files = ("dm_control/mjcf/schema.xml", "metaworld/assets/textures/metal.png", "pygame/base.py")
    lost = ("dm_control/suite/cheetah.xml", "metaworld/assets/scene/textures/wood.png", "pygame/docs/index.html")
    (tmp_path / "wheels").mkdir()
    path = wheel(tmp_path / "wheels" / "demo-1-py3-none-any.whl", *packed_files, *lost)
    before = path.read_bytes()
    packed_folder = packing.pack(tmp_path / "wheels")
    assert path.read_bytes() == before
    assert packed_folder.archive == tmp_path / "wheels.tar.xz" and {*packed_folder.missing} == {*packing.packages()}
    with tarfile.open(packed_folder.archive) as archive:
        archive.extractall(tmp_path / "there", filter="data")
    with zipfile.ZipFile(tmp_path / "there" / "wheels" / path.name) as smaller_wheel:
        assert smaller_wheel.testzip() is None and {*smaller_wheel.namelist()} == {
            *packed_files,
            "demo-1.dist-info/RECORD",
        }
        listed = [line.split(",")[0] for line in smaller_wheel.read("demo-1.dist-info/RECORD").decode().splitlines()]
        assert listed == [*packed_files, "demo-1.dist-info/RECORD"]


def test_a_wheel_that_was_not_wholly_downloaded_is_named(tmp_path: Path) -> None:
    path = wheel(tmp_path / "demo-1-py3-none-any.whl", "a.py")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match=r"demo-1-py3-none-any\.whl is no whole wheel"):
        packing.pack(tmp_path)
    assert [*tmp_path.parent.glob(f"*{tmp_path.name}*")] == [tmp_path]


def test_two_versions_of_a_package_and_no_wheel_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no wheels"):
        packing.pack(tmp_path)
    for version in (1, 2):
        wheel(tmp_path / f"Demo_Package-{version}-py3-none-any.whl", "a.py")
    with pytest.raises(UserError, match="are of one package"):
        packing.pack(tmp_path)
