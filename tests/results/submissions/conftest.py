"""A real study, trained once for all tests here, and its archive, taken apart and put together again."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.identity.cells import record, write_cell
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix
from guidebench.harness.records.study import StudyDirectory
from guidebench.harness.run.worker import work
from guidebench.results.submissions import manifest, packing
from guidebench.results.submissions.manifest import MANIFEST, Manifest, Packed

Contents = dict[str, bytes]
SEEDS = (0, 1)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one cell, as `bench run` leaves them; only to be read."""
    where = tmp_path_factory.mktemp("somebodys-home") / "cartpole"
    words = ["suite=classic", "task=CartPole-v1", "method=uer", "profile=smoke", f"seeds={len(SEEDS)}"]
    plan = matrix.plan([*words, f"output={where}"])
    study = StudyDirectory(where)
    (cell,) = plan.cells
    entry = {"directory": cell.directory, "seeds": list(plan.seeds), "label_variant": plan.variant(cell)}
    study.write(plan.name, ["bench", "run", *words, f"output={where}"], {cell.id: entry})
    write_cell(study, cell)
    work(Job(plan.name, str(where), record(cell), SEEDS), lambda event: None, lambda: False)
    return where


@pytest.fixture
def study(trained: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "study"))


@pytest.fixture
def cell(study: Path) -> str:
    """The directory of its cell, relative to the study."""
    (entry,) = json.loads((study / "study.json").read_text())["cells"].values()
    return str(entry["directory"])


@pytest.fixture
def archive(trained: Path, tmp_path: Path) -> Path:
    return packing.pack(trained, tmp_path / "cartpole.zip", by="A. Reader").file


def contents_of(file: Path) -> Contents:
    """Path -> bytes of what is in an archive, the manifest left out."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}


def manifest_of(file: Path) -> Manifest:
    with zipfile.ZipFile(file) as archive:
        return manifest.read(archive.read(MANIFEST))


@pytest.fixture
def forged(archive: Path, tmp_path: Path) -> Callable[..., Path]:
    """`forged(change)`: the archive with its contents changed in place by `change(contents)`, every checksum right."""

    def forge(change: Callable[[Contents], object], **claims: object) -> Path:
        contents = contents_of(archive)
        change(contents)
        contents = {path: contents[path] for path in sorted(contents)}
        before = manifest_of(archive)
        files = {path: Packed(*packing.measure(content)) for path, content in contents.items()}
        told = {name: getattr(before, name) for name in ("name", "by", "contact", "guidebench", "verifiable")}
        file = tmp_path / "forged.zip"
        packing.write(file, Manifest(**{**told, **claims}, files=files), contents)
        return file

    return forge
