"""A real study, trained once for all tests here, and its archive, taken apart and put together again."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guidebench.results.submissions import manifest, packing
from guidebench.results.submissions.manifest import MANIFEST, Manifest, Packed
from tests.conftest import trainer

Contents = dict[str, bytes]
SEEDS = (0, 1)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two seeds of one cell as `bench run` does; tests only read the study."""
    home = tmp_path_factory.mktemp("somebodys-home")
    words = ("suite=classic", "task=CartPole-v1", "method=uer", f"seeds={len(SEEDS)}")
    return trainer(home)(*words, packs=[SEEDS], directory=home / "cartpole")


@pytest.fixture
def study(trained: Path, tmp_path: Path) -> Path:
    """Copy the trained study, so that a test may change it."""
    return Path(shutil.copytree(trained, tmp_path / "study"))


@pytest.fixture(scope="session")
def cell(trained: Path) -> str:
    """Return the directory of the trained cell, relative to its study."""
    (cell_entry,) = json.loads((trained / "study.json").read_text())["cells"].values()
    return str(cell_entry["directory"])


@pytest.fixture(scope="session")
def archive(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack the trained study as a submission; tests only read it."""
    return packing.pack(trained, tmp_path_factory.mktemp("packed") / "cartpole.zip", by="A. Reader").file


def contents_of(file: Path) -> Contents:
    """Return path -> bytes of all files in an archive except the manifest."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}


def manifest_of(file: Path) -> Manifest:
    with zipfile.ZipFile(file) as archive:
        return manifest.read(archive.read(MANIFEST))


def forge(archive: Path, file: Path, change: Callable[[Contents], object], seal: bool = True, **claims: object) -> Path:
    """Write an archive whose contents `change` has changed in place, and return its path; if `seal`, its checksums are
    right. `claims`: entries of the manifest to replace."""
    contents, manifest = contents_of(archive), manifest_of(archive)
    change(contents)
    contents = {path: contents[path] for path in sorted(contents)}
    files = {path: Packed(*packing.measure(content)) for path, content in contents.items()}
    packing.write(file, replace(manifest, files=files, **claims) if seal else manifest, contents)  # type: ignore[arg-type]
    return file


@pytest.fixture
def forged(archive: Path, tmp_path: Path) -> Callable[..., Path]:
    """`forged(change)` returns a copy of the archive that was changed so, with right checksums."""
    return lambda change, **claims: forge(archive, tmp_path / "forged.zip", change, **claims)


def edit_json(path: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Contents], None]:
    """Return a function that applies `change` to a JSON file of an archive."""

    def apply(contents: Contents) -> None:
        document = json.loads(contents[path])
        change(document)
        contents[path] = json.dumps(document).encode()

    return apply


def rows(path: str, change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Contents], None]:
    """Return a function that applies `change` to the rows of a Parquet file of an archive."""

    def apply(contents: Contents) -> None:
        table = pq.read_table(io.BytesIO(contents[path]))
        table_rows = table.to_pylist()
        change(table_rows)
        contents[path] = parquet(pa.Table.from_pylist(table_rows, schema=table.schema))

    return apply


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()
