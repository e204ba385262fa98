"""An archive is added as a whole or refused by name with nothing left behind; hostile ones within bounds."""

from __future__ import annotations

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

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.results import submissions
from guidebench.results.submissions import opening, packing
from guidebench.results.submissions.manifest import MANIFEST
from tests.results.submissions.conftest import contents_of, manifest_of

EVIL = 'study"><script>alert(1)</script>'


def refused(file: Path, directory: Path, message: str) -> None:
    """`add` refuses with a message that names the file and says what to do, and leaves nothing behind."""
    with pytest.raises(UserError, match=message) as caught:
        submissions.add(file, directory)
    assert str(file) in str(caught.value) and "\x1b" not in str(caught.value)
    assert not directory.exists()


def entries_of(archive: Path) -> list[tuple[zipfile.ZipInfo, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        return [(entry, opened.read(entry)) for entry in opened.infolist()]


@pytest.fixture
def hostile(archive: Path, tmp_path: Path) -> Callable[..., Path]:
    """`hostile(change)`: the archive's entries, a list of (ZipInfo, bytes), changed in place and written by zipfile."""

    def write(change: Callable[[list[tuple[zipfile.ZipInfo, bytes]]], object]) -> Path:
        entries = entries_of(archive)
        change(entries)
        file = tmp_path / "hostile.zip"
        with zipfile.ZipFile(file, "w") as target:
            for entry, content in entries:
                target.writestr(entry, content)
        return file

    return write


def entry(name: str, mode: int = 0o100644, **fields: object) -> zipfile.ZipInfo:
    found = zipfile.ZipInfo(name, packing.EPOCH)
    found.external_attr, found.create_system = mode << 16, 3
    for key, value in fields.items():
        setattr(found, key, value)
    return found


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


def test_the_same_file_twice_is_one_submission_and_said_so(archive: Path, tmp_path: Path) -> None:
    first = submissions.add(archive, tmp_path / "board")
    with pytest.warns(UserWarning, match="was added before"):
        assert submissions.add(archive, tmp_path / "board") == first
    assert len(list(first.parent.iterdir())) == 1


def test_one_that_was_damaged_after_adding_is_not_taken_for_the_same(archive: Path, tmp_path: Path) -> None:
    added = submissions.add(archive, tmp_path / "board")
    (added / "study.json").write_text("{}")
    with pytest.raises(UserError, match=r"study\.json was changed since it was packed .* add its archive anew"):
        submissions.add(archive, tmp_path / "board")


def test_an_archive_is_looked_at_in_a_directory_that_goes_away(archive: Path) -> None:
    with submissions.unpacked(archive) as submission:
        assert len(results.load(submission.study)) and submission.directory.is_dir()
    assert not submission.directory.parent.exists()


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


@pytest.mark.parametrize(
    "name",
    [
        "../evil.json", "/etc/passwd", "C:/evil.json", "a\\b\\c\\cell.json", "a/../../cell.json", "a//b/cell.json",
        "./study.json", "frames/a/b/../c.png", "notes.txt", "inner.zip", "study.json/", "a/b/c/seed-0/model.pkl",
        "a/b/c/seed-01/run.json", f"a/b/{EVIL}/cell.json", "a/b/\x1b[2J/cell.json", "a/b/\u202ec/cell.json",
        "a/b/c\n/cell.json", "a/b/ c/cell.json", "a/b/c./cell.json", "a/b/" + "c" * 200 + "/cell.json",
        "models/cassette.sqlite-wal", "seed-0/run.json",
    ],
)  # fmt: skip
def test_a_name_that_no_submission_has_is_refused(hostile: Callable[..., Path], tmp_path: Path, name: str) -> None:
    file = hostile(lambda entries: entries.append((entry(name), b"x")))
    refused(file, tmp_path / "board", "is no file of a submission, or lies outside it")


@pytest.mark.parametrize("mode", [0o120777, 0o020666, 0o010644, 0o040755, 0o104755, 0o100755, 0])
def test_links_devices_and_programs_are_refused(hostile: Callable[..., Path], tmp_path: Path, mode: int) -> None:
    file = hostile(lambda entries: entries.append((entry("x/y/z/cell.json", mode or 1), b"/etc/passwd")))
    refused(file, tmp_path / "board", "entry 'x/y/z/cell.json' is no plain file")


def duplicate(entries: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
    entries.append((entry("study.json"), b"{}"))


def test_the_same_name_twice_is_refused(hostile: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):  # zipfile's own, while the archive is made
        file = hostile(duplicate)
    refused(file, tmp_path / "board", "entry 'study.json' is there twice")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a/b/c/cell.json", "a/b/C/cell.json"),
        ("a/b/c/cell.json", "A/b/c/seed-0/run.json"),
        ("a/b/c/cell.json", "a/b/c/cell.json/d/e/cell.json"),
        ("frames/a/b/x.png", "frames/a/b/X.png"),
    ],
)
def test_names_that_clash_are_refused(hostile: Callable[..., Path], tmp_path: Path, first: str, second: str) -> None:
    file = hostile(lambda entries: entries.extend([(entry(first), b"x"), (entry(second), b"x")]))
    refused(file, tmp_path / "board", "clashes with|is no file of a submission")


def test_a_file_that_is_also_a_directory_is_refused(hostile: Callable[..., Path], tmp_path: Path) -> None:
    file = hostile(lambda entries: entries.append((entry("study.json/a/b/cell.json"), b"x")))
    refused(file, tmp_path / "board", "'study.json/a/b/cell.json' clashes with 'study.json'")


def test_a_zip_bomb_is_refused_before_it_goes_off(hostile: Callable[..., Path], tmp_path: Path) -> None:
    bomb = entry("a/b/c/seed-0/ledger.jsonl", compress_type=zipfile.ZIP_DEFLATED)
    file = hostile(lambda entries: entries.append((bomb, bytes(2**27))))
    assert file.stat().st_size < 2**18
    tracemalloc.start()
    refused(file, tmp_path / "board", "'a/b/c/seed-0/ledger.jsonl' is compressed; a submission's are stored")
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_manifest_is_not_even_read(archive: Path, tmp_path: Path, method: int) -> None:
    file = tmp_path / "deflated.zip"
    with zipfile.ZipFile(file, "w", method) as target:
        target.writestr(entry(MANIFEST, compress_type=method), bytes(2**24))
    refused(file, tmp_path / "board", "'manifest.json' is compressed")


def test_an_encrypted_entry_is_refused(archive: Path, tmp_path: Path) -> None:
    content = bytearray(archive.read_bytes())
    at = content.rindex(b"PK\1\2")
    content[at + 8] |= 1
    (tmp_path / "a.zip").write_bytes(content)
    refused(tmp_path / "a.zip", tmp_path / "board", "'study.json' is encrypted")


def test_sizes_that_lie_are_refused(archive: Path, tmp_path: Path) -> None:
    for offset, value in ((20, 2**31), (24, 3), (24, 2**32 - 1), (42, 7)):  # of the last entry: compressed, real, where
        content = bytearray(archive.read_bytes())
        at = content.rindex(b"PK\1\2")
        content[at + offset : at + offset + 4] = struct.pack("<I", value)
        (tmp_path / "a.zip").write_bytes(content)
        refused(tmp_path / "a.zip", tmp_path / "board", "is compressed|overlaps another|is damaged|bytes; at most")


def test_entries_that_share_bytes_are_refused(archive: Path, tmp_path: Path) -> None:
    """Every entry points at the same bytes, as in a bomb without compression's help."""
    content = bytearray(archive.read_bytes())
    start = content.index(b"PK\1\2")
    second = content.index(b"PK\1\2", start + 4)
    third = content.index(b"PK\1\2", second + 4)
    content[third + 42 : third + 46] = content[second + 42 : second + 46]
    (tmp_path / "a.zip").write_bytes(content)
    refused(tmp_path / "a.zip", tmp_path / "board", "overlaps another or hides something|is damaged")


@pytest.mark.parametrize("where", ["before", "behind", "between"])
def test_bytes_that_no_entry_owns_are_refused(archive: Path, tmp_path: Path, where: str) -> None:
    content = archive.read_bytes()
    match where:
        case "before":
            content = b"#!/bin/sh\n" + content
        case "behind":
            content += b"more"
        case "between":
            content = content.replace(b"PK\1\2", b"hiddenPK\1\2", 1)
            at = struct.unpack("<I", content[-6:-2])[0] + len("hidden")
            content = content[:-6] + struct.pack("<I", at) + content[-2:]
    (tmp_path / "a.zip").write_bytes(content)
    refused(tmp_path / "a.zip", tmp_path / "board", "no plain ZIP|no ZIP archive|hides something behind its last entry")


def test_a_file_cut_short_anywhere_is_refused(archive: Path, tmp_path: Path) -> None:
    content = archive.read_bytes()
    for length in (0, 1, 21, 22, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "a.zip").write_bytes(content[:length])
        refused(tmp_path / "a.zip", tmp_path / "board", "is no ZIP archive, or it is cut short")


def test_a_bit_that_flipped_on_the_way_is_noticed_or_changes_nothing(archive: Path, tmp_path: Path) -> None:
    content, digest = bytearray(archive.read_bytes()), manifest_of(archive).digest
    for at in range(40, len(content), len(content) // 23):
        content[at] ^= 1
        (tmp_path / "a.zip").write_bytes(content)
        try:
            added = submissions.add(tmp_path / "a.zip", tmp_path / "board")
        except UserError:
            assert not (tmp_path / "board").exists()
        else:  # a field of the container that tells nothing, as the time in an entry's own header
            assert submissions.opened(added).digest == digest
            shutil.rmtree(tmp_path / "board")
        content[at] ^= 1


class Exploit:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch pwned",)


def test_a_pickle_is_never_run(archive: Path, forged: Callable[..., Path], cell: str, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    (tmp_path / "a.zip").write_bytes(pickle.dumps(Exploit()))
    refused(tmp_path / "a.zip", tmp_path / "board", "is no ZIP archive")
    saved = io.BytesIO()
    with zipfile.ZipFile(saved, "w") as torch_file:  # as torch.save writes it
        torch_file.writestr("archive/data.pkl", pickle.dumps(Exploit()))
    (tmp_path / "b.zip").write_bytes(saved.getvalue())
    refused(tmp_path / "b.zip", tmp_path / "board", "does not begin with one manifest.json")
    for content in (pickle.dumps(Exploit()), saved.getvalue()):
        file = forged(lambda contents, c=content: contents.update({f"{cell}/seed-0/policy.safetensors": c}))
        refused(file, tmp_path / "board", "seed-0/policy.safetensors is no safetensors file")
    assert not (tmp_path / "pwned").exists()


def test_a_hundred_thousand_entries_are_not_read(tmp_path: Path) -> None:
    one = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"x"
    for count, told in ((65_534, 65_534), (100_000, 65_535), (100_000, 1)):
        index = one * count
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, told, told, len(index), 0, 0)
        (tmp_path / "a.zip").write_bytes(index + end)
        started = time.process_time()
        refused(
            tmp_path / "a.zip", tmp_path / "board", "entries; a submission has at most|does not begin with|is damaged"
        )
        assert time.process_time() - started < 5


def test_a_zip64_index_is_not_followed(archive: Path, tmp_path: Path) -> None:
    """Its locator would let a small file name an index of any size."""
    content = archive.read_bytes()
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    start = struct.unpack("<I", content[-6:-2])[0]
    length = len(content) - 22 - start + len(locator)
    end = content[-22:-10] + struct.pack("<LLH", length, start, 0)
    (tmp_path / "a.zip").write_bytes(content[:-22] + locator + end)
    refused(tmp_path / "a.zip", tmp_path / "board", "is no plain ZIP archive")


def test_a_huge_manifest_is_not_read(hostile: Callable[..., Path], tmp_path: Path) -> None:
    def grow(entries: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
        entries[0] = (entry(MANIFEST), b" " * (2**24 + 1))

    refused(hostile(grow), tmp_path / "board", "'manifest.json' has 16,777,217 bytes; at most 16,777,216 fit")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 100_000, "is not plain JSON"),
        (b"{}", "does not fit the schema: 'schema' is a required property"),
        (b"\x80\x05K\x01.", "is not plain JSON"),
        (b'{"schema": NaN}', "NaN is no number"),
        (b'{"schema": 1, "schema": 2}', "a name is there twice"),
        (b'{"schema": 1e999}', "not finite"),
        (b'{"schema": "\\u001b[2J"}', "control characters"),
        (b"[" * 20 + b"]" * 20, "nested more than 16 deep"),
        (b'{"schema": ' + b"9" * 10_000 + b"}", "is not plain JSON"),
    ],
)
def test_a_manifest_that_is_none_is_refused(
    hostile: Callable[..., Path], tmp_path: Path, text: bytes, message: str
) -> None:
    def swap(entries: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
        entries[0] = (entry(MANIFEST), text)

    refused(hostile(swap), tmp_path / "board", message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(schema=2), "manifest.json, schema does not fit"),
        (lambda m: m.update(verifiable="yes"), "manifest.json, verifiable does not fit"),
        (lambda m: m.update(name=""), "manifest.json, name does not fit"),
        (lambda m: m.update(by="x" * 201), "manifest.json, by does not fit"),
        (lambda m: m.update(more=1), "Additional properties"),
        (lambda m: m["files"]["study.json"].update(bytes=-1), "files, study.json, bytes does not fit"),
        (lambda m: m["files"]["study.json"].update(bytes=1.5), "files, study.json, bytes does not fit"),
        (lambda m: m["files"]["study.json"].update(bytes=2**40), "study.json has 1,099,511,627,776 bytes; at most"),
        (lambda m: m["files"]["study.json"].update(sha256="x"), "files, study.json, sha256 does not fit"),
        (lambda m: m["files"].update({"../x": {"bytes": 1, "sha256": "0" * 64}}), "which is no file of a submission"),
        (lambda m: m["files"].pop("study.json"), "study.json is not as its manifest lists it"),
        (lambda m: m["files"]["study.json"].update(bytes=3), "study.json is not as its manifest lists it"),
        (lambda m: m["files"]["study.json"].update(sha256="0" * 64), "study.json was changed since it was packed"),
        (lambda m: m.update(by="B"), "is not written as"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    hostile: Callable[..., Path], tmp_path: Path, change: Callable[[dict[str, object]], object], message: str
) -> None:
    def swap(entries: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
        content = json.loads(entries[0][1])
        change(content)
        indent = 1 if "by" not in message and content["by"] != "B" else 2
        entries[0] = (entry(MANIFEST), f"{json.dumps(content, indent=indent, sort_keys=True)}\n".encode())

    refused(hostile(swap), tmp_path / "board", message)


def test_entries_in_another_order_are_refused(hostile: Callable[..., Path], tmp_path: Path) -> None:
    refused(hostile(lambda entries: entries.reverse()), tmp_path / "board", "does not begin with one manifest.json")
    file = hostile(lambda entries: entries.__setitem__(slice(1, None), entries[:0:-1]))
    refused(file, tmp_path / "board", "the order of its entries")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.zip", tmp_path):
        with pytest.raises(UserError, match=r"cannot be read \((No such file|Is a directory)"):
            submissions.add(path, tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_a_directory_that_was_there_before_stays(hostile: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "board" / opening.SUBMISSIONS).mkdir(parents=True)
    with pytest.raises(UserError):
        submissions.add(hostile(lambda entries: entries.append((entry("x"), b"x"))), tmp_path / "board")
    assert list((tmp_path / "board" / opening.SUBMISSIONS).iterdir()) == []


def test_a_refusal_late_in_the_archive_leaves_nothing(forged: Callable[..., Path], cell: str, tmp_path: Path) -> None:
    file = forged(lambda contents: contents.update({f"{cell}/seed-1/ledger.jsonl": b'{"step": "x"}\n' * 3}))
    refused(file, tmp_path / "board", f"{cell}/seed-1/ledger.jsonl, row 1")
    assert contents_of(file)
