"""Files of strangers are parsed in the separate process: every reader is listed, and each gets one hostile corpus."""

from __future__ import annotations

import ast
import io
import json
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import guidebench
from guidebench.harness import outside, reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.records import leases
from guidebench.harness.records.clips import FORMS
from guidebench.harness.records.leases import Lease
from guidebench.harness.records.schema import SCHEMA_VERSION
from guidebench.harness.records.study import LIVE
from tests.outside_readers import FOLLOWERS, READERS

ROOT = Path(guidebench.__file__).parent.parent
FOLDERS = ("guidebench", "harness", "suites", "baselines", "methods", "results", "reports")
CALLS = {
    "ast.literal_eval", "bz2.open", "cached_file", "GGUFReader", "csv.DictReader", "csv.reader", "gzip.decompress",
    "gzip.open", "h5py.File", "Image.open", "json.load", "json.loads", "JSON.decode", "load_file", "lzma.decompress",
    "lzma.open", "np.fromfile", "np.genfromtxt", "np.load", "np.loadtxt", "np.memmap", "pickle.load", "pickle.loads",
    "pickletools.genops", "pq.ParquetFile", "pq.read_table", "read_json", "safe_open", "sqlite3.connect",
    "tarfile.open", "tomllib.load", "tomllib.loads", "torch.load", "zipfile.ZipFile", "zlib.decompress",
}  # fmt: skip
"""Functions that parse files, or texts of them, as our modules name them."""
ENDINGS = (".from_pretrained", ".get_reader", ".imread", ".read_csv", ".read_magic", ".read_parquet")


FOLLOWING = (
    "harness/commands/status_", "harness/commands/cancel_", "harness/commands/track_", "harness/run/queues",
    "harness/trackers/base", "harness/trackers/following", "results/following", "reports/live/watching",
    "reports/live/contents",
)  # fmt: skip
"""Modules of commands that follow a study while it is written, which may be a stranger's."""
RECORDS = (
    ".live", ".held", ".standing", ".runs", ".read", ".status", "last_row", "spending.spent", "leases.holder",
    ".lost", ".queued", ".cancel",
)  # fmt: skip
"""Functions by which such a module would parse records of a study."""


def readers(source: str, module: str, endings: tuple[str, ...] = ENDINGS) -> Iterator[str]:
    """Yield MODULE:FUNCTION for each call in a module's source that parses a file or text."""
    tree = ast.parse(source)
    loaders = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("safetensors")
        for alias in node.names
        if alias.name not in ("SafetensorError", "save", "save_file")
    }

    def visit(node: ast.AST, path: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            path = (*path, node.name)
        if isinstance(node, ast.Call | ast.Name | ast.Attribute):
            name = dotted(node.func if isinstance(node, ast.Call) else node)
            called = isinstance(node, ast.Call)
            if name in CALLS or (called and (name in loaders or name.endswith(endings))):
                yield f"{module}:{'.'.join(path)}"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, path)

    yield from visit(tree, ())


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def test_every_reader_is_listed_with_the_reason_why_it_is_safe() -> None:
    modules = {path.relative_to(ROOT): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}
    scanned = {
        reader
        for name, path in modules.items()
        for reader in readers(path.read_text(encoding="utf-8"), name.with_suffix("").as_posix())
    }
    assert sorted(scanned - READERS.keys()) == [], "list it in tests/outside_readers.py: where does it run?"
    assert sorted(READERS.keys() - scanned) == [], "it parses nothing any more"


def test_commands_that_follow_a_study_read_its_records_in_the_separate_process() -> None:
    scanned = {
        reader
        for module in FOLLOWING
        for reader in readers((ROOT / f"{module}.py").read_text(encoding="utf-8"), module, RECORDS)
    }
    assert scanned == FOLLOWERS.keys()


def test_a_new_reader_is_noticed() -> None:
    source = "from safetensors.numpy import load\nclass A:\n def b(self, f):\n  return load(f), map(json.loads, f)"
    assert set(readers(source, "m")) == {"m:A.b"}


_opened: list[str] | None = None


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event in ("open", "sqlite3.connect"):
        _opened.append(str(arguments[0]))


sys.addaudithook(_note)


@contextmanager
def unopened(directory: Path) -> Iterator[None]:
    """Fail if this process, not the separate one, opens a file below a directory to read it."""
    global _opened
    _opened = []
    try:
        yield
        files = [path for path in _opened if path.startswith(f"{directory}/") and Path(path).is_file()]
        assert not files
    finally:
        _opened = None


DOCUMENTS: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "a text": b'"text"',
    "lists in lists": b"[" * 100_000,
    "objects in objects": b'{"schema":' * 100_000,
    "a vast number": b'{"schema": 1' + b"0" * 10_000 + b"}",
    "an infinite number": b'{"schema": 1e999, "seed": 1e999, "status": "finished", "cells": {"a": 1e999}}',
    "bytes": b"\xff\xfe\x00{",
    "half a surrogate": b'{"schema": 1, "study": "\\ud800", "cells": {"\\ud800": {"directory": "\\ud800"}}}',
    "numbers for objects": b'{"schema": 1, "cells": 3, "weight_map": 3, "episodes": 3, "settings": 3, "seed": {}}',
}
LENGTH = (2**63).to_bytes(8, "little")
NUMPY = b"\x93NUMPY\x01\x00\x76\x00"
ARRAYS: dict[str, bytes] = {
    **DOCUMENTS,
    "a vast header": LENGTH,
    "a header of lists": (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "vast arrays": (80).to_bytes(8, "little")
    + b'{"a": {"dtype": "F32", "shape": [1099511627776], "data_offsets": [0, 4]}}'.ljust(80) + b"\0" * 4,
    "arrays of text": (80).to_bytes(8, "little")
    + b'{"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]}}'.ljust(80) + b"\0" * 4,
    "a vast array": NUMPY
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + b"\n",
    "objects": NUMPY + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n" + b"\x80\x04N.",
}  # fmt: skip


def _in(name: str, read: Callable[[Path], object], *others: str) -> Callable[[Path, bytes], object]:
    """Return a reader of a directory in which the file `name` is hostile, and `others` are empty JSON objects."""

    def act(directory: Path, content: bytes) -> object:
        for other in others:
            (directory / other).parent.mkdir(parents=True, exist_ok=True)
            (directory / other).write_bytes(b"{}")
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
        with unopened(directory):
            return read(directory)

    return act


def _study(directory: Path) -> object:
    from guidebench.results import store

    return store.study(directory)


def _run(directory: Path) -> object:
    from guidebench.results import store

    return store.run(directory / "suite/task/method-0/seed-0")


def _evaluated(directory: Path) -> object:
    from guidebench.harness.playback.reevaluation import load_run

    return load_run(directory / "suite/task/method-0/seed-0")


def _gallery(directory: Path) -> object:
    from guidebench.harness.records import clips

    return clips.read_gallery(directory)


def _clip(folder: str) -> Callable[[Path], object]:
    from guidebench.harness.records import clips

    return lambda directory: clips.read(directory, folder, "0.json")


def _configuration(directory: Path) -> object:
    from guidebench.results.verification.configuration import Altered, Unusable, configuration

    with pytest.raises((Altered, Unusable)):
        configuration(directory, "0")
    raise UserError("refused")


def _verification(directory: Path) -> object:
    from guidebench.results.verification import record

    return record.read(directory, "0" * 64)


def _submission(directory: Path) -> object:
    from guidebench.results import submissions

    return submissions.opened(directory)


def _archive(directory: Path) -> object:
    from guidebench.results.submissions.opening import unpacked

    with unpacked(directory / "archive.zip"):
        return None


def _ledger(directory: Path) -> object:
    from guidebench.reports.leaderboard.costs import _last

    return _last(directory / "ledger.jsonl")


def _imported(directory: Path) -> object:
    from guidebench.results import importing

    return importing.read(directory / "rows.csv")


def _model(directory: Path) -> object:
    from guidebench.harness.models.backends import outside_files

    return outside_files.check(directory)


def _width(directory: Path) -> object:
    from guidebench.harness.models.embedders.transformers_text_embedder import hidden_size

    return hidden_size(directory / "config.json")


def _dimensions(directory: Path) -> object:
    from guidebench.harness.models.convert import width

    return width(directory / "model.safetensors")


def _parameters(directory: Path) -> object:
    from guidebench.harness.models.backends import parameters

    return parameters.of_files([directory / "model.safetensors"])


def _single(directory: Path) -> object:
    from guidebench.harness.models.backends.transformers_.single_files import read

    return read(str(directory / "model.safetensors"))


def _policy(directory: Path) -> object:
    return reader_process.read("reading a policy", directory / "policy", outside.arrays, directory / "policy")


def _converted(directory: Path) -> object:
    from guidebench.harness.models.convert import convert

    return convert(directory / "model.pth", directory / "model.safetensors")


def _words(directory: Path) -> object:
    from guidebench.harness.models.convert import word_list

    return reader_process.read("reading words", directory / "words.npy", word_list, directory / "words.npy")


def _snapshots(directory: Path) -> object:
    from guidebench.baselines.teachers.human.files import PendingQuestion

    return PendingQuestion(directory, 0, 0, None, "0" * 16).snapshots()


def _question(directory: Path) -> object:
    from guidebench.baselines.teachers.human.files import read

    return read(directory, 0)


def _metadata(directory: Path) -> object:
    from guidebench.baselines.datasets.minari.reading import metadata

    return metadata(directory / "metadata.json")


def _described(directory: Path) -> object:
    from guidebench.baselines.datasets.lerobot.metadata import metadata

    return metadata(directory)


def _indexed(directory: Path) -> object:
    from guidebench.baselines.datasets.lerobot.metadata import Feature, Metadata
    from guidebench.baselines.datasets.lerobot.reading import Reader, gathered
    from guidebench.suites.classic import Classic

    spaces = Classic().spaces("CartPole-v1")
    described = Metadata(directory, {"observation.state": Feature("float32", (4,)), "action": Feature("int64", (1,))})
    names = {"observation": "observation.state", "action": "action", "reward": "next.reward", "success": "next.success"}
    return gathered(Reader(described, names, "CartPole-v1", ("CartPole-v1",), *spaces, None), 0)


def _episodes(directory: Path) -> object:
    pytest.importorskip("h5py")
    from guidebench.baselines.datasets.minari.reading import Reader, gathered
    from guidebench.suites.classic import Classic

    spaces = Classic().spaces("CartPole-v1")
    return gathered(Reader(directory / "main_data.hdf5", {}, "CartPole-v1", ("CartPole-v1",), *spaces, "success"), 0)


def _exchanged(directory: Path) -> object:
    from guidebench.harness.models import cassette_checks

    file = directory / "calls.sqlite"
    return reader_process.call(f"{file}: looking at it", cassette_checks.seconds(file), cassette_checks.verify, file)


def _status(directory: Path) -> object:
    from guidebench.harness.commands import cli

    return _main(cli.main, "status", str(directory))


def _cancelled(directory: Path) -> object:
    from guidebench.harness.commands import cli

    return _main(cli.main, "cancel", str(directory))


def _main(command: Callable[[list[str]], int], *words: str) -> object:
    """Run a command; raise what it prints if it fails."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as printed:
        code = command([*words])
    if code:
        raise UserError(printed.getvalue().strip())
    return None


def _watched(directory: Path) -> object:
    from guidebench.results.following import Following

    with Following(directory) as following:
        following.look()
        faults = following.faults
    if faults:
        raise UserError(faults[0])
    return None


def _tracked(directory: Path) -> object:
    from guidebench.harness.records.study import StudyDirectory
    from guidebench.harness.trackers import following

    study = StudyDirectory(directory)
    runs = reader_process.call("reading records", 60.0, following.standings, study)
    assert reader_process.call("reading leases", 60.0, following._is_held, study)
    for run, standing in runs:
        if isinstance(standing, UserError):
            raise standing
        following._points(run, -1, standing[0])
    return None


def _offsets(directory: Path) -> object:
    from guidebench.harness.trackers import following

    assert following._read(directory / "offsets.json") == ({}, "", "")
    return None


def _in_training(name: str, read: Callable[[Path], object]) -> Callable[[Path, bytes], object]:
    """Return a reader of a study with a run that a process trains, in which the file `name` is hostile."""
    records: dict[str, object] = {
        "study.json": {
            "schema": SCHEMA_VERSION, "study": "s", "command": [],
            "cells": {"0": {"directory": RUN, "seeds": [0], "label_variant": ""}},
        },
        f"{RUN}/cell.json": CELL,
        f"{RUN}/seed-0/run.json": {"schema": SCHEMA_VERSION, "status": "running", "seed": 0, "step": 1, "steps": 2},
        f"{RUN}/seed-0/checkpoint-1/state.json": {},
    }  # fmt: skip
    contents = {file: json.dumps(record).encode() for file, record in records.items()}
    if name.startswith("jobs/"):
        contents |= {"jobs/slurm.launcher": b"", "jobs/a.submitted": b"17", "jobs/a.array": Path(name).stem.encode()}

    def act(directory: Path, content: bytes) -> object:
        for file, bytes_ in (contents | {name: content}).items():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_bytes(bytes_)
        lease = Lease(directory / RUN / "seed-0", "run")
        with patch.object(leases, "BEAT", 3_600.0):  # its thread would open the file of the lease
            lease.acquire()
        try:
            with unopened(directory):
                return read(directory)
        finally:
            lease.release()

    return act


def _answers(directory: Path) -> object:
    from guidebench.harness.execution import Models
    from guidebench.harness.playback import eval_answers

    return eval_answers.check(directory, Models(mode="replay"))


def _named(name: str) -> Callable[[Path], object]:
    """Return a reader of a study that names a cassette, or another study, of its directory."""
    from guidebench.harness.execution import Models
    from guidebench.harness.models import study_models

    return lambda directory: study_models.sources(Models(cassette=str(directory / name)), directory / "own/models")


def _counted(directory: Path) -> object:
    from guidebench.harness.models import exchange

    return exchange.stats(directory / "calls.sqlite")


def _exported(directory: Path) -> object:
    from guidebench.harness.models import exchange

    return exchange.export(directory, directory / "new.sqlite")


def _kept_answers(directory: Path) -> object:
    from guidebench.harness.models import answer_files

    return answer_files.summary(str(directory))


def _animation(directory: Path) -> object:
    from guidebench.results import galleries

    return reader_process.call("decoding", 60.0, galleries.check, (directory / "00.webp").read_bytes(), 3)


RUN = "suite/task/method-0"
CELL = {
    "schema": SCHEMA_VERSION, "cell": "0", "suite": "suite", "task": "task", "method": "method", "learner": "",
    "backend": "", "model": "", "profile": "", "steps": 2,
}  # fmt: skip
SEED = f"{RUN}/seed-0"
FOLLOWED: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "status": (
        _status,
        ("study.json", f"{RUN}/cell.json", f"{SEED}/run.json", f"{SEED}/{LIVE}", f"{SEED}/ledger.jsonl",
         "models/cassette.sqlite", "jobs/slurm.json"),
    ),
    "watch": (
        _watched, ("study.json", f"{RUN}/cell.json", f"{SEED}/run.json", f"{SEED}/{LIVE}", f"{SEED}/evaluations.jsonl")
    ),
    "track": (
        _tracked,
        ("study.json", f"{RUN}/cell.json", f"{SEED}/run.json", f"{SEED}/evaluations.jsonl",
         f"{SEED}/checkpoint-1/state.json"),
    ),
    "cancel": (_cancelled, ("study.json", "jobs/slurm.json")),
}  # fmt: skip
"""Command that follows a study -> how it reads one, and the files that it reads."""
READ_DOCUMENTS: dict[str, Callable[[Path, bytes], object]] = {
    "a study": _in("study.json", _study),
    "a run": _in(f"{RUN}/cell.json", _run, f"{RUN}/seed-0/run.json", "study.json"),
    "the state of a run": _in(f"{RUN}/seed-0/run.json", _run, f"{RUN}/cell.json", "study.json"),
    "a run to play": _in(f"{RUN}/seed-0/run.json", _evaluated, f"{RUN}/cell.json"),
    "a gallery": _in("gallery/gallery.json", _gallery),
    **{f"a clip in {folder}": _in(f"{folder}/0.json", _clip(folder)) for folder in FORMS},
    "a configuration": _in("cell.json", _configuration),
    "a verification": _in(f"verifications/{'0' * 64}.json", _verification),
    "a submission": _in("manifest.json", _submission),
    "an archive": _in("archive.zip", _archive),
    "a ledger": _in("ledger.jsonl", _ledger),
    "rows of other programs": _in("rows.csv", _imported),
    "a model's configuration": _in("config.json", _model),
    "a tokenizer": _in("tokenizer.json", _model, "config.json"),
    "a model's width": _in("config.json", _width),
    "a question to a person": _in("questions/0.json", _question),
    "metadata of a dataset": _in("metadata.json", _metadata),
    "episodes of a dataset": _in("main_data.hdf5", _episodes),
    "features of robots' data": _in("meta/info.json", _described),
    "episodes of robots' data": _in("meta/episodes/chunk-000/file-000.parquet", _indexed),
    "a cassette": _in("calls.sqlite", _exchanged),
    "a cassette that a study names": _in("calls.sqlite", _named("calls.sqlite")),
    "another study's cassette": _in("other/models/cassette.sqlite", _named("other")),
    "another study's shard": _in("other/models/shard-0.sqlite", _named("other")),
    "a cassette to count": _in("calls.sqlite", _counted),
    "a study to export": _in("models/cassette.sqlite", _exported),
    "answers for a placebo": _in("answers.parquet", _kept_answers),
    "answers of a re-evaluation": _in("eval/models/cassette.sqlite", _answers),
    **{
        f"{command}: {Path(name).name}": _in_training(name, read)
        for command, (read, names) in FOLLOWED.items()
        for name in names
    },
    "offsets of a tracker": _in("offsets.json", _offsets),
}
READ_ARRAYS: dict[str, Callable[[Path, bytes], object]] = {
    "weights": _in("model.safetensors", _model),
    "weights of one file": _in("model.safetensors", _single),
    "the width of weights": _in("model.safetensors", _dimensions),
    "the number of weights": _in("model.safetensors", _parameters),
    "a policy": _in("policy", _policy),
    "a checkpoint": _in("model.pth", _converted),
    "a list of words": _in("words.npy", _words),
    "snapshots": _in("questions/0.npy", _snapshots),
}


def import_all(read: Callable[[Path, bytes], object], directory: Path) -> None:
    """Read a harmless file with a reader, so that later reads import nothing."""
    directory.mkdir()
    with suppress(UserError), warnings.catch_warnings(action="ignore"):
        read(directory, b"{}")


@pytest.mark.parametrize("reader", [*READ_DOCUMENTS, *READ_ARRAYS])
def test_a_reader_refuses_what_it_cannot_read_or_reads_it_apart(reader: str, tmp_path: Path) -> None:
    """A reader of a hostile file soon returns or raises a UserError, nothing else, and this process never opens the
    file."""
    read = (READ_DOCUMENTS | READ_ARRAYS)[reader]
    for number, (content, bytes_) in enumerate((DOCUMENTS if reader in READ_DOCUMENTS else ARRAYS).items()):
        directory = tmp_path / str(number)
        directory.mkdir()
        if not number:
            import_all(read, tmp_path / "imports")
        started = time.monotonic()
        with warnings.catch_warnings(action="ignore"):
            try:
                read(directory, bytes_)
            except UserError as error:
                assert "\n" not in str(error), content
        assert time.monotonic() - started < 20, content


def test_a_picture_that_declares_more_than_it_has_is_refused() -> None:
    from guidebench.harness.models.backends.images import png

    assert outside.picture(png(np.full((4, 6, 3), 7, np.uint8))).tolist() == [[[7, 7, 7]] * 6] * 4
    picture = bytearray(png(np.zeros((8, 8, 3), np.uint8)))
    picture[16:24] = (10_000).to_bytes(4, "big") * 2
    picture[29:33] = zlib.crc32(picture[12:29]).to_bytes(4, "big")
    with pytest.raises(UserError, match="declares 300,000,000; at most 1000 times"):
        outside.picture(bytes(picture))
