"""The process that plays strangers' policies: what is too much for it ends it, or the run, and never the verifier."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UserError
from results.verification import playing
from results.verification.playing import Misfit, Player, Wanted


def test_what_needs_more_memory_than_there_is_for_it_fails() -> None:
    code = (
        "from results.verification import playing\n"
        "playing._limit_memory()\n"
        "import numpy\n"
        "numpy.empty(playing.MEMORY // 8 + 1)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1 and "Unable to allocate 8.00 GiB" in ended.stderr


def test_a_process_that_ended_is_told_and_begun_anew(tmp_path: Path) -> None:
    player = Player(60.0)
    nothing = Wanted(tmp_path, "none", 0, 1, 1, 1, 1)
    try:
        with pytest.raises(UserError, match=r"cell\.json is missing"):
            player(nothing)
        player._process.kill()
        with pytest.raises(UserError, match="its process ended with exit code -9; it may need too much memory"):
            player(nothing)
        with pytest.raises(UserError, match=r"cell\.json is missing"):
            player(nothing)
    finally:
        player.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04cos\nsystem\n",
        struct.pack("<Q", 2**62),
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        struct.pack("<Q", 17) + json.dumps({"a": {"b": 1}}).encode(),
    ],
)
def test_a_file_that_is_no_policy_is_refused_by_its_head(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "policy.safetensors"
    path.write_bytes(content)
    with pytest.raises(Misfit, match=r"policy\.safetensors is no policy, or too large a one"):
        playing._shapes(path)


def test_a_policy_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", 2) + b"{}")
        file.truncate(playing.LARGEST_POLICY + 1)
    with pytest.raises(Misfit, match="too large"):
        playing._shapes(path)
