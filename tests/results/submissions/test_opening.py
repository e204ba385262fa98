"""An archive is added as a whole or refused by name with nothing left behind; hostile ones within bounds."""

import io
import json
import os
import pickle
import shutil
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.results import submissions
from guidebench.results.submissions import opening, packing
from guidebench.results.submissions.manifest import MANIFEST
from tests.results.submissions.conftest import contents_of, manifest_of

EVIL = 'study"><script>alert(1)</script>'


def check_add_refused(file: Path, directory: Path, message: str) -> None:
    """Check that `add` refuses with a message that names the file and says what to do, and leaves nothing behind."""
    with pytest.raises(UserError, match=message) as caught:
        submissions.add(file, directory)
    assert str(file) in str(caught.value) and "\x1b" not in str(caught.value) and not directory.exists()


def entries_of(archive: Path) -> list[tuple[zipfile.ZipInfo, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        return [(entry, opened.read(entry)) for entry in opened.infolist()]


@pytest.fixture
def hostile(archive: Path, tmp_path: Path) -> Callable[..., Path]:
    """`hostile(change)` writes an archive with zipfile whose members, a list of (ZipInfo, bytes), `change` has changed
    in place."""

    def write(change: Callable[[list[tuple[zipfile.ZipInfo, bytes]]], object]) -> Path:
        members = entries_of(archive)
        change(members)
        file = tmp_path / "hostile.zip"
        with zipfile.ZipFile(file, "w") as target:
            for info, packed in members:
                target.writestr(info, packed)
        return file

    return write


def entry(name: str, mode: int = 0o100644, **fields: object) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, packing.EPOCH)
    member.external_attr, member.create_system = mode << 16, 3
    for key, value in fields.items():
        setattr(member, key, value)
    return member


def test_a_submission_made_in_one_directory_is_added_in_another(archive: Path, trained: Path, tmp_path: Path) -> None:
    added = submissions.add(archive, tmp_path / "board")
    manifest = manifest_of(archive)
    assert added == tmp_path / "board" / "submissions" / f"{manifest.name.replace('+', '-')}-{manifest.digest[:8]}"
    assert sorted(path.name for path in (tmp_path / "board" / "submissions").iterdir()) == [added.name]
    opened = submissions.opened(added)
    assert opened.manifest == manifest and opened.digest == manifest.digest
    ours, theirs = results.load(trained), results.load(opened.study)
    assert theirs.equals(ours) and len(ours)


def test_what_a_killed_add_left_is_removed_once_it_is_a_day_old(archive: Path, tmp_path: Path) -> None:
    home = tmp_path / "board" / opening.SUBMISSIONS
    for name, age in ((".unpacked-old", 90_000), (".unpacked-young", 3_600), ("theirs", 90_000)):
        (home / name / "x").mkdir(parents=True)
        os.utime(home / name, (time.time() - age,) * 2)
    added = submissions.add(archive, tmp_path / "board")
    assert {path.name for path in home.iterdir()} == {".unpacked-young", "theirs", added.name}


def test_the_same_file_twice_is_one_submission_unless_it_was_damaged(archive: Path, tmp_path: Path) -> None:
    added = submissions.add(archive, tmp_path / "board")
    with pytest.warns(UserWarning, match="was added before"):
        assert submissions.add(archive, tmp_path / "board") == added
    assert len(list(added.parent.iterdir())) == 1
    (added / "study.json").write_text("{}")
    with pytest.raises(UserError, match=r"study\.json was changed since it was packed .* add its archive anew"):
        submissions.add(archive, tmp_path / "board")
    with submissions.unpacked(archive) as submission:
        assert len(results.load(submission.study)) and submission.directory.is_dir()
    assert not submission.directory.parent.exists(), "it is looked at in a directory that goes away"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "study.json").write_text("{}"), "study.json was changed since it was packed"),
        (lambda d: next(d.rglob("policy.safetensors")).unlink(), "lacks .*policy.safetensors"),
        (lambda d: (d / "more.txt").write_text("x"), "has besides more.txt"),
        (lambda d: (d / "link").symlink_to("/etc/passwd"), "is a link or a device"),
        (lambda d: os.mkfifo(d / "pipe"), "is a link or a device"),
        (lambda d: (d / MANIFEST).write_text("[]"), "does not fit the schema"),
        (
            lambda d: (d / MANIFEST).write_bytes((d / MANIFEST).read_bytes().replace(b'"A. R', b'"B. R')),
            "was renamed, or its manifest.json changed",
        ),
        (lambda d: (d / MANIFEST).unlink(), "is no submission"),
    ],
)
def test_a_change_after_adding_is_noticed(
    archive: Path, tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    added = submissions.add(archive, tmp_path / "board")
    change(added)
    with pytest.raises(UserError, match=message) as caught:
        submissions.opened(added)
    assert str(added) in str(caught.value) and "delete the directory and add its archive anew" in str(caught.value)


Members = list[tuple[zipfile.ZipInfo, bytes]]
OUTSIDE = (
    "../evil.json", "/etc/passwd", "C:/evil.json", "a\\b\\c\\cell.json", "a/../../cell.json", "a//b/cell.json",
    "./study.json", "frames/a/b/../c.png", "notes.txt", "inner.zip", "study.json/", "a/b/c/seed-0/model.pkl",
    "a/b/c/seed-01/run.json", f"a/b/{EVIL}/cell.json", "a/b/\x1b[2J/cell.json", "a/b/\u202ec/cell.json",
    "a/b/c\n/cell.json", "a/b/ c/cell.json", "a/b/c./cell.json", "a/b/" + "c" * 200 + "/cell.json",
    "models/cassette.sqlite-wal", "seed-0/run.json",
)  # fmt: skip
MODES = (0o120777, 0o020666, 0o010644, 0o040755, 0o104755, 0o100755, 1)
CLASHES = (
    ("a/b/c/cell.json", "a/b/C/cell.json"), ("a/b/c/cell.json", "A/b/c/seed-0/run.json"),
    ("a/b/c/cell.json", "a/b/c/cell.json/d/e/cell.json"), ("frames/a/b/x.png", "frames/a/b/X.png"),
)  # fmt: skip


def more(*added: zipfile.ZipInfo) -> Callable[[Members], object]:
    return lambda members: members.extend((info, b"/etc/passwd") for info in added)


def first(text: bytes) -> Callable[[Members], object]:
    """Return a change that replaces the text of the manifest."""
    return lambda members: members.__setitem__(0, (entry(MANIFEST), text))


def manifest(change: Callable[[Any], object], indent: int = 1) -> Callable[[Members], object]:
    def swap(members: Members) -> None:
        document = json.loads(members[0][1])
        change(document)
        first(f"{json.dumps(document, indent=indent, sort_keys=True)}\n".encode())(members)

    return swap


def file(**values: Any) -> Callable[[Members], object]:
    """Return a change of the manifest's entry for study.json."""
    return manifest(lambda document: document["files"]["study.json"].update(values))


ENTRIES: list[tuple[Callable[[Members], object], str]] = [
    *((more(entry(name)), "is no file of a submission, or lies outside it") for name in OUTSIDE),
    *((more(entry("x/y/z/cell.json", mode)), "entry 'x/y/z/cell.json' is no plain file") for mode in MODES),
    *((more(*map(entry, names)), "clashes with|is no file of a submission") for names in CLASHES),
    (more(entry("study.json/a/b/cell.json")), "'study.json/a/b/cell.json' clashes with 'study.json'"),
    (more(entry("study.json")), "entry 'study.json' is there twice"),
    (lambda members: members.reverse(), "does not begin with one manifest.json"),
    (lambda entries: entries.__setitem__(slice(1, None), entries[:0:-1]), "the order of its entries"),
    (first(b" " * (2**24 + 1)), "'manifest.json' has 16,777,217 bytes; at most 16,777,216 fit"),
    (first(b"[" * 100_000), "is not plain JSON"),
    (first(b"{}"), "does not fit the schema: 'schema' is a required property"),
    (first(b"\x80\x05K\x01."), "is not plain JSON"),
    (first(b'{"schema": NaN}'), "NaN is no number"),
    (first(b'{"schema": 1, "schema": 2}'), "a name is there twice"),
    (first(b'{"schema": 1e999}'), "not finite"),
    (first(b'{"schema": "\\u001b[2J"}'), "control characters"),
    (first(b"[" * 20 + b"]" * 20), "nested more than 16 deep"),
    (first(b'{"schema": ' + b"9" * 10_000 + b"}"), "is not plain JSON"),
    (manifest(lambda m: m.update(schema=2)), "manifest.json, schema does not fit"),
    (manifest(lambda m: m.update(verifiable="yes")), "manifest.json, verifiable does not fit"),
    (manifest(lambda m: m.update(name="")), "manifest.json, name does not fit"),
    (manifest(lambda m: m.update(by="x" * 201)), "manifest.json, by does not fit"),
    (manifest(lambda m: m.update(more=1)), "Additional properties"),
    (file(bytes=-1), "files, study.json, bytes does not fit"),
    (file(bytes=1.5), "files, study.json, bytes does not fit"),
    (file(bytes=2**40), "study.json has 1,099,511,627,776 bytes; at most"),
    (file(sha256="x"), "files, study.json, sha256 does not fit"),
    (manifest(lambda m: m["files"].update({"../x": {"bytes": 1, "sha256": "0" * 64}})), "is no file of a submission"),
    (manifest(lambda m: m["files"].pop("study.json")), "study.json is not as its manifest lists it"),
    (file(bytes=3), "study.json is not as its manifest lists it"),
    (file(sha256="0" * 64), "study.json was changed since it was packed"),
    (manifest(lambda m: m.update(by="B"), indent=2), "is not written as"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("change", "message"), ENTRIES, ids=range(len(ENTRIES)))
def test_an_archive_of_other_entries_is_refused(
    hostile: Callable[..., Path], tmp_path: Path, change: Callable[[Members], object], message: str
) -> None:
    check_add_refused(hostile(change), tmp_path / "board", message)


def put(archive_bytes: bytes, at: int, value: bytes) -> bytes:
    return archive_bytes[:at] + value + archive_bytes[at + len(value) :]


def resize(offset: int, value: int) -> Callable[[bytes], bytes]:
    """Return a change of a 32-bit number in the last entry of the index."""
    return lambda archive_bytes: put(archive_bytes, archive_bytes.rindex(b"PK\1\2") + offset, struct.pack("<I", value))


def encrypt(archive_bytes: bytes) -> bytes:
    at = archive_bytes.rindex(b"PK\1\2") + 8
    return put(archive_bytes, at, bytes([archive_bytes[at] | 1]))


def share_bytes(archive_bytes: bytes) -> bytes:
    """Let two entries of an archive share the same bytes, as a bomb without compression does."""
    second = archive_bytes.index(b"PK\1\2", archive_bytes.index(b"PK\1\2") + 4)
    return put(archive_bytes, archive_bytes.index(b"PK\1\2", second + 4) + 42, archive_bytes[second + 42 : second + 46])


def hide_bytes(archive_bytes: bytes) -> bytes:
    """Insert bytes between an archive's last entry and its index."""
    start = struct.unpack("<I", archive_bytes[-6:-2])[0] + len("hidden")
    return put(archive_bytes.replace(b"PK\1\2", b"hiddenPK\1\2", 1), len(archive_bytes), struct.pack("<I", start))


def zip64(archive_bytes: bytes) -> bytes:
    """Add a zip64 locator, with which a small file could name an index of any size."""
    start = struct.unpack("<I", archive_bytes[-6:-2])[0]
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    length = len(archive_bytes) - 22 - start + len(locator)
    return archive_bytes[:-22] + locator + archive_bytes[-22:-10] + struct.pack("<LLH", length, start, 0)


UNOWNED = "no plain ZIP|no ZIP archive|hides something behind its last entry"
LIES = "is compressed|overlaps another|is damaged|bytes; at most"
BYTES: list[tuple[Callable[[bytes], bytes], str]] = [
    (encrypt, "'study.json' is encrypted"),
    # of the last entry: compressed, real, where
    *((resize(offset, value), LIES) for offset, value in ((20, 2**31), (24, 3), (24, 2**32 - 1), (42, 7))),
    (share_bytes, "overlaps another or hides something|is damaged"),
    (lambda content: b"#!/bin/sh\n" + content, UNOWNED),
    (lambda content: content + b"more", UNOWNED),
    (hide_bytes, UNOWNED),
    *((lambda content, cut=cut: content[: cut(len(content))], "is no ZIP archive, or it is cut short") for cut in (
        *(lambda size, length=length: length for length in (0, 1, 21, 22, 100)),
        lambda size: size // 2, lambda size: size - 1,
    )),
    (zip64, "is no plain ZIP archive"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BYTES, ids=range(len(BYTES)))
def test_an_archive_of_other_bytes_is_refused(
    archive: Path, tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    (tmp_path / "a.zip").write_bytes(change(archive.read_bytes()))
    check_add_refused(tmp_path / "a.zip", tmp_path / "board", message)


def test_a_zip_bomb_is_refused_before_it_goes_off(hostile: Callable[..., Path], tmp_path: Path) -> None:
    bomb = entry("a/b/c/seed-0/ledger.jsonl", compress_type=zipfile.ZIP_DEFLATED)
    file = hostile(lambda members: members.append((bomb, bytes(2**27))))
    assert file.stat().st_size < 2**18
    tracemalloc.start()
    check_add_refused(file, tmp_path / "board", "'a/b/c/seed-0/ledger.jsonl' is compressed; a submission's are stored")
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_manifest_is_not_even_read(archive: Path, tmp_path: Path, method: int) -> None:
    file = tmp_path / "deflated.zip"
    with zipfile.ZipFile(file, "w", method) as target:
        target.writestr(entry(MANIFEST, compress_type=method), bytes(2**24))
    check_add_refused(file, tmp_path / "board", "'manifest.json' is compressed")


def test_a_bit_that_flipped_on_the_way_is_noticed_or_changes_nothing(archive: Path, tmp_path: Path) -> None:
    archive_bytes, digest = bytearray(archive.read_bytes()), manifest_of(archive).digest
    for at in range(40, len(archive_bytes), len(archive_bytes) // 23):
        archive_bytes[at] ^= 1
        (tmp_path / "a.zip").write_bytes(archive_bytes)
        try:
            added = submissions.add(tmp_path / "a.zip", tmp_path / "board")
        except UserError:
            assert not (tmp_path / "board").exists()
        else:  # the bit is in a field without effect, such as the time in an entry's local header
            assert submissions.opened(added).digest == digest
            shutil.rmtree(tmp_path / "board")
        archive_bytes[at] ^= 1


class Exploit:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch pwned",)


def test_a_pickle_is_never_run(
    archive: Path, forged: Callable[..., Path], cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.zip").write_bytes(pickle.dumps(Exploit()))
    check_add_refused(tmp_path / "a.zip", tmp_path / "board", "is no ZIP archive")
    saved = io.BytesIO()
    with zipfile.ZipFile(saved, "w") as torch_file:  # as torch.save writes it
        torch_file.writestr("archive/data.pkl", pickle.dumps(Exploit()))
    (tmp_path / "b.zip").write_bytes(saved.getvalue())
    check_add_refused(tmp_path / "b.zip", tmp_path / "board", "does not begin with one manifest.json")
    for pickled in (pickle.dumps(Exploit()), saved.getvalue()):
        file = forged(lambda contents, c=pickled: contents.update({f"{cell}/seed-0/policy.safetensors": c}))
        check_add_refused(file, tmp_path / "board", "seed-0/policy.safetensors is no safetensors file")
    assert not (tmp_path / "pwned").exists()


def test_a_hundred_thousand_entries_are_not_read(tmp_path: Path) -> None:
    record = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"x"
    for count, stated in ((65_534, 65_534), (100_000, 65_535), (100_000, 1)):
        index = record * count
        (tmp_path / "a.zip").write_bytes(
            index + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, stated, stated, len(index), 0, 0)
        )
        started = time.process_time()
        check_add_refused(
            tmp_path / "a.zip", tmp_path / "board", "entries; a submission has at most|does not begin with|is damaged"
        )
        assert time.process_time() - started < 5


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.zip", tmp_path):
        with pytest.raises(UserError, match=r"cannot be read \((No such file|Is a directory)"):
            submissions.add(path, tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_a_directory_that_was_there_before_stays(hostile: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "board" / opening.SUBMISSIONS).mkdir(parents=True)
    with pytest.raises(UserError):
        submissions.add(hostile(lambda members: members.append((entry("x"), b"x"))), tmp_path / "board")
    assert list((tmp_path / "board" / opening.SUBMISSIONS).iterdir()) == []


def test_a_refusal_late_in_the_archive_leaves_nothing(forged: Callable[..., Path], cell: str, tmp_path: Path) -> None:
    file = forged(lambda contents: contents.update({f"{cell}/seed-1/ledger.jsonl": b'{"step": "x"}\n' * 3}))
    check_add_refused(file, tmp_path / "board", f"{cell}/seed-1/ledger.jsonl, row 1")
    assert contents_of(file)
