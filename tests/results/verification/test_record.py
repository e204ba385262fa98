"""A verification's file: it comes back as it was written, and a strange one is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.errors import UserError
from guidebench.results.verification import record
from guidebench.results.verification.record import CellVerdict, Check, Tally, Verification

DIGEST = "0f" * 32
VERIFICATION = Verification(
    DIGEST,
    {
        "abc": CellVerdict("verified", "", (Check("configuration", True, "it holds"),), Tally(3, 4), Tally(30, 32)),
        "def": CellVerdict("disputed", "no", (Check("a", False, "x"), Check("b", None, "y")), Tally(0, 0), Tally(0, 0)),
    },
    seed=7, episodes=32, calls=20, runs=None, tolerance=0.25, commit="c0ffee", dirty=True,
    packages={"torch": "2.11"}, hardware={"processor": "some CPU", "cores": 2, "device": "cpu"},
)  # fmt: skip


def test_what_is_written_comes_back_and_counts_for_the_bytes_of_one_manifest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert record.read(tmp_path, DIGEST) is None
    path, other = record.write(VERIFICATION, tmp_path), "1f" * 32
    assert path == tmp_path / "verifications" / f"{DIGEST}.json" and record.read(tmp_path, DIGEST) == VERIFICATION
    path.with_name(f"{other}.json").write_bytes(path.read_bytes())
    with pytest.raises(UserError, match=f"{other}.json is no record .*it is of {DIGEST}"):
        record.read(tmp_path, other)
    for digest in ("", "../study", "0F" * 32, "0f" * 33):
        with pytest.raises(UserError, match="is no digest of a submission"):
            record.read(tmp_path, digest)
    monkeypatch.setattr(record, "LARGEST", 100)
    with pytest.raises(UserError, match="bytes, more than 100"):
        record.read(tmp_path, DIGEST)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda record_: record_.update(schema=2), "its schema is 2, this version reads 1"),
        (lambda record_: record_.update(more=1), "expected an object with calls, cells, commit"),
        (lambda record_: record_.pop("seed"), "expected an object with calls, cells, commit"),
        (lambda record_: record_.update(seed=True), "True: expected a whole number"),
        (lambda record_: record_.update(tolerance=float("nan")), "NaN is no number"),
        (lambda record_: record_.update(tolerance=1.5), "1.5: expected a number in [0, 1]"),
        (lambda record_: record_.update(dirty="yes"), "'yes': expected true or false"),
        (lambda record_: record_.update(cells=[]), "expected an object of at most"),
        (
            lambda content: content["cells"]["abc"].update(standing="great"),
            "standing is 'great'; expected one of verified",
        ),
        (lambda record_: record_["cells"]["abc"].update(reason="\x1b[2J"), "expected printable text"),
        (lambda record_: record_["cells"]["abc"]["reported"].update(successes=9), "9 successes in 4 episodes"),
        (lambda record_: record_["cells"]["abc"]["checks"][0].update(passed=1), "1: expected true or false"),
        (lambda record_: record_["cells"]["abc"].update(checks={}), "checks are no list"),
        (lambda record_: record_["packages"].update(torch=2), "2: expected printable text"),
    ],
)
def test_a_strange_record_is_refused_by_name(tmp_path: Path, edit: Callable[[Any], None], says: str) -> None:
    path = record.write(VERIFICATION, tmp_path)
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    with pytest.raises(UserError) as refused:
        record.read(tmp_path, DIGEST)
    assert str(path) in str(refused.value) and says in str(refused.value)


@pytest.mark.parametrize("content", ["[" * 100_000, "{", "[]", "\ud800".encode("utf-16", "surrogatepass")])
def test_what_is_no_such_json_is_refused_by_name(tmp_path: Path, content: str | bytes) -> None:
    record.write(VERIFICATION, tmp_path).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match="is no record of `bench verify`"):
        record.read(tmp_path, DIGEST)
