"""Archives made to crash, to hang or to raise: each is refused by name, leaves nothing, and the next one gets in."""

import hashlib
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load, save

from guidebench.harness.errors import UserError
from guidebench.harness.models import cassette_file
from guidebench.harness.records.schema import LEDGER
from guidebench.results import submissions
from guidebench.results.submissions import opening
from tests.results.submissions.conftest import Contents

Forge = Callable[..., Path]


def check_add_refused(file: Path, archive: Path, board: Path, message: str) -> None:
    """Check that `add` refuses the file by name, leaves nothing of it on the board, and then accepts a sound
    archive."""
    with pytest.raises(UserError, match=message) as caught:
        submissions.add(file, board)
    assert str(file) in str(caught.value) and "ask for the archive as `bench submit` made it" in str(caught.value)
    assert not board.exists()
    added = submissions.add(archive, board)
    assert list((board / opening.SUBMISSIONS).iterdir()) == [added]


def replaced(contents: bytes, before: bytes, after: bytes) -> bytes:
    assert contents.count(before) >= 1 and len(before) == len(after)
    return contents.replace(before, after)


def repeated_column(content: bytes) -> bytes:
    """Return Parquet bytes with two columns of one name, of which a reader by name takes either."""
    table = pq.read_table(io.BytesIO(content))
    sink = io.BytesIO()
    names = [*table.column_names, "step"]
    pq.write_table(pa.Table.from_arrays([*table.columns, table.column("episode")], names=names), sink)
    return sink.getvalue()


def put(path: str, content: bytes) -> Callable[[str], Callable[[Contents], object]]:
    """Return a change that writes a file of the archive; `path` is relative to the cell's directory, or to the archive
    if it begins with `/`."""
    return lambda cell: lambda contents: contents.update({path[1:] if path[0] == "/" else f"{cell}/{path}": content})


def rewrite_evaluations(change: Callable[[bytes], bytes]) -> Callable[[str], Callable[[Contents], object]]:
    """Return a change of the bytes of the first run's evaluations."""
    return lambda cell: edited_bytes(f"{cell}/seed-0/evaluations.parquet", change)


def edited_bytes(path: str, change: Callable[[bytes], bytes]) -> Callable[[Contents], object]:
    return lambda contents: contents.update({path: change(contents[path])})


def copy_policy(change: Callable[[bytes], bytes]) -> Callable[[str], Callable[[Contents], object]]:
    """Return a change that stores the first seed's parameters, changed, as another seed's too."""
    return lambda cell: (
        lambda contents: contents.update(
            {f"{cell}/seed-1/policy.safetensors": change(contents[f"{cell}/seed-0/policy.safetensors"])}
        )
    )


def tensors(*arrays: tuple[str, str, Any, int], metadata: dict[str, str] | None = None) -> bytes:
    """Return a safetensors file of zeros with these arrays, given as name, dtype, shape and number of bytes."""
    head: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, dtype, shape, size in arrays:
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + bytes(at)


def retold(content: bytes) -> bytes:
    return save(load(content), metadata={"trained": "really"})


def reorder_arrays(content: bytes) -> bytes:
    """Return safetensors bytes with the same arrays in reverse order."""
    length = int.from_bytes(content[:8], "little")
    head, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    header, parts, at = {}, [], 0
    for name, entry in reversed(head.items()):
        start, end = entry["data_offsets"]
        header[name] = {**entry, "data_offsets": [at, at + end - start]}
        parts.append(body[start:end])
        at += end - start
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def cassette(*calls: tuple[dict[str, Any], str]) -> bytes:
    """Return a cassette with consistent rows for these pairs of request and answer."""
    with sqlite3.connect(":memory:") as db:
        for statement in cassette_file.LAYOUT:
            db.execute(statement)
        for request, answer in calls:
            text = json.dumps({"model": {}, **request})
            key = hashlib.sha256(text.encode()).hexdigest()
            db.execute("INSERT INTO requests VALUES (?, ?)", (key, text))
            row = (key, "cell/0", answer, "judge", "", 0, 0, "tiny", "{}", 1, 0, 0, 0, 0.0, 0.0)
            db.execute(f"INSERT INTO answers VALUES ({','.join('?' * len(row))})", row)
        db.commit()
        return db.serialize()


def chat(schema: dict[str, Any], answer: Any) -> tuple[dict[str, Any], str]:
    request = {"kind": "chat", "messages": [], "schema": schema, "max_tokens": 9, "temperature": 0}
    return request, json.dumps({"object": answer})


DOUBLED = {
    "$ref": "#/$defs/0",
    "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)} | {"60": {}},
}
"""A schema whose parts each refer to the next one twice: 2**60 looks at the answer."""
UNIQUE = {"properties": {"x": {"type": "array", "uniqueItems": True}}}


ROW = {"step": 1, **{column: kind() for column, kind in LEDGER.items()}}
PLACE = "has no name, shape and place"
HOSTILE: list[tuple[Callable[[str], Callable[[Contents], object]], str]] = [
    # One byte of the footer: the column is no longer optional, its values still have definition levels. The library
    # aborts the process on it.
    (rewrite_evaluations(lambda content: replaced(content, b"%\x02\x18\x04step", b"%\x00\x18\x04step")),
     "made its process end with exit"),
    (rewrite_evaluations(lambda content: replaced(content, b"\x18\x04step", b"\x18\x04st\xffp")),
     "evaluations.parquet cannot be read as"),
    (rewrite_evaluations(repeated_column), "evaluations.parquet has the column 'step' twice"),
    *((put("seed-0/policy.safetensors", content), f"seed-0/policy.safetensors is no safetensors file .*({message})")
      for content, message in (
        (tensors(("w", "F8_E4M3", [4], 4)), "is of dtype 'F8_E4M3'; expected F64"),
        (tensors(("w", "BF16", [2], 4)), "is of dtype 'BF16'"),
        (tensors(("w", "F32", [True, True], 4)), f"{PLACE} of whole numbers"),
        (tensors(("w", "F32", [-1, -1], 4)), f"{PLACE} of whole numbers"),
        (tensors(("w", "F32", [1.0], 4)), f"{PLACE} of whole numbers"),
        (tensors(("w", "F32", [1] * 40, 4)), "has other bytes than its shape"),
        (tensors(("\x1b[2J", "F32", [1], 4)), PLACE),
        (b"\xff" * 8 + b"{}", "of which its table should have"),
        (b"\x03\0\0\0\0\0\0\0[1]", "its table is no JSON object"),
        (b"\x02\0\0\0\0\0\0\0\xff\xfe", "UnicodeDecodeError|codec can't decode"),
        ((200_000).to_bytes(8, "little") + b"[" * 200_000, "its table is nested too deep"),
        (b"\x1b\0\0\0\0\0\0\0" + b'{"__metadata__":{},"w":[1]}', "'w' is not described by dtype, shape"),
    )),
    *((copy_policy(copied), "seed-1 has the very parameters of .*seed-0, and no two seeds learn the same")
      for copied in (retold, reorder_arrays, lambda content: save({**load(content), "more": np.ones(3, np.float32)}))),
    *((put("seed-0/ledger.jsonl", f"{json.dumps({**ROW, name: -0.5})}\n".encode()),
       rf"seed-0/ledger.jsonl, row 1, column '{name}': -0\.5; expected .* of at")
      for name in ("usd", "billed_usd", "seconds", "billed_seconds")),
    *((put("/models/cassette.sqlite", content), f"models/cassette.sqlite.*{message}") for content, message in (
        (cassette(chat(DOUBLED, {})), r"row 1 of requests .*its keyword '\$ref' is not allowed"),
        (cassette(chat(UNIQUE, {"x": [{"n": n} for n in range(20_000)]})),
         "row 1 of requests .*its keyword 'uniqueItems' is not allowed"),
        (cassette(({"kind": "embed", "items": ["a"]}, '{"float32": "AACAPw==", "shape": [true, true]}')),
         "row 1 of answers .*is no recorded answer"),
        (replaced(cassette(), b"CREATE TABLE images", b"CREATE TABLE im\xffges"), "is no cassette, or a damaged one"),
        (replaced(cassette(), b"CREATE TABLE images", b"CREATE TA\xffLE images"), "is no cassette, or a damaged one"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_what_a_reader_cannot_bear_is_refused_and_the_next_one_gets_in(
    forged: Forge, archive: Path, cell: str, tmp_path: Path,
    change: Callable[[str], Callable[[Contents], object]], message: str,
) -> None:  # fmt: skip
    check_add_refused(forged(change(cell)), archive, tmp_path / "board", message)


def test_what_takes_for_ever_is_ended(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(opening, "SECONDS", 0.0)
        patch.setattr(opening, "SPEED", 2**40)
        with pytest.raises(UserError, match=r"cartpole\.zip is refused: looking at it takes longer than .* s; ask for"):
            submissions.add(archive, tmp_path / "board")
        assert not (tmp_path / "board").exists()
    assert submissions.add(archive, tmp_path / "board").is_dir()
