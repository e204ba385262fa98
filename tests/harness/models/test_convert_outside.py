"""Checkpoints that declare more than they hold, or hold what safetensors cannot: each ends soon with one line and no
file."""

import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from guidebench.harness.commands.cli import main


def shared_dictionary(levels: int) -> dict[str, Any]:
    """Return a dictionary that holds the next one twice, and so on: 2^levels paths to the last one."""
    inside: dict[str, Any] = {"weight": torch.ones(1)}
    for _ in range(levels):
        inside = {"a": inside, "b": inside}
    return inside


def itself() -> dict[str, Any]:
    content: dict[str, Any] = {"epoch": 1}
    content["again"] = content
    return content


def named_often(count: int) -> dict[str, Any]:
    weight = torch.ones(10_000)
    return {f"w{number}": weight for number in range(count)}


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "stride 0": (lambda: {"weight": torch.zeros(1).expand(2**31)}, "declare 8,589,934,592; at most 4 times"),
    "stride 0 beside": (
        lambda: {"model": {"a": torch.ones(1), "b": torch.ones(1)}, "more": {"c": torch.zeros(1).expand(2**31)}},
        "at most 4 times",
    ),
    "one tensor of many names": (lambda: named_often(1_000), "at most 4 times"),
    "itself": (itself, "holds no named tensors"),
    "quantized": (
        lambda: {"weight": torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)},
        "tensor weight is quantized",
    ),
    "sparse": (lambda: {"weight": torch.eye(4).to_sparse()}, r"tensor weight is sparse \(torch.sparse_coo\)"),
    "vast and sparse": (
        lambda: {"weight": torch.sparse_coo_tensor(torch.zeros(1, 1).long(), torch.ones(1), (2**40,))},
        "at most 4 times",
    ),
    "meta": (lambda: {"weight": torch.ones(4, device="meta")}, "tensor weight is on no device"),
    "surrogate": (lambda: {"\udc80": torch.ones(1)}, r"named \\udc80, which is no valid text"),
    "reserved": (lambda: {"__metadata__": torch.ones(1)}, "which safetensors reserves"),
    "dtype": (lambda: {"weight": torch.ones(4, dtype=torch.complex128)}, "tensor weight is torch.complex128"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_checkpoint_ends_in_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, words = REFUSED[name]
    torch.save(make(), tmp_path / "model.pth")
    assert_refused(tmp_path, capsys, words)


def assert_refused(directory: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    started = time.monotonic()
    assert main(["models", "convert", str(directory / "model.pth"), str(directory / "out.safetensors")]) != 0
    output = capsys.readouterr()
    assert time.monotonic() - started < 20
    assert not output.out and output.err.count("\n") == 1 and re.search(words, output.err)
    assert [path.name for path in directory.iterdir()] == ["model.pth"]


def test_a_deflated_checkpoint_is_refused_before_it_is_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"weight": torch.zeros(2**22)}, tmp_path / "plain.pth")
    with zipfile.ZipFile(tmp_path / "plain.pth") as plain, zipfile.ZipFile(tmp_path / "model.pth", "w") as packed:
        for entry in plain.infolist():
            packed.writestr(entry.filename, plain.read(entry), zipfile.ZIP_DEFLATED)
    (tmp_path / "plain.pth").unlink()
    assert_refused(tmp_path, capsys, "at most 4 times")


def test_a_dictionary_shared_forty_levels_deep_is_visited_once(tmp_path: Path) -> None:
    torch.save(shared_dictionary(40), tmp_path / "model.pth")
    started = time.monotonic()
    assert main(["models", "convert", str(tmp_path / "model.pth"), str(tmp_path / "out.safetensors")]) == 0
    assert time.monotonic() - started < 20


def test_a_list_of_words_that_declares_more_than_it_has_is_refused(tmp_path: Path) -> None:
    from guidebench.harness.errors import UserError
    from guidebench.harness.models.convert import word_list

    header = "{'descr': '<U64', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + "\n"
    (tmp_path / "words.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    with pytest.raises(UserError, match="at most 4 times"):
        word_list(tmp_path / "words.npy")
