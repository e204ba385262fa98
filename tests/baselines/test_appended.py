"""A file that grows from checkpoint to checkpoint."""

import zlib
from pathlib import Path

from guidebench.baselines.appended import Appended
from tests.refusals import check_refused


def test_what_an_older_checkpoint_lacks_is_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "run" / "replay" / "file"
    file = Appended(place, "lines")
    assert file.append(b"") == {"bytes": 0, "checksum": 0} and not place.exists()
    older = file.append(b"one")
    newer = file.append(b"two")
    assert newer == {"bytes": 6, "checksum": zlib.crc32(b"onetwo")} and place.read_bytes() == b"onetwo"
    again = Appended(place, "lines")
    assert again.restore(newer) == b"onetwo" and again.restore(older) == b"one"
    assert again.append(b"2") == {"bytes": 4, "checksum": zlib.crc32(b"one2")} and place.read_bytes() == b"one2"
    check_refused(r"file does not hold the lines .* delete .*run to train the run anew", again.restore, newer)
    assert again.restore(Appended(place, "").append(b"")) == b""
