"""Answers that processes on several machines record for one study are complete, found again, and paid for once."""

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from guidebench.harness.models import cassette, exchange
from guidebench.harness.models.cassette import MERGED, Cassette, CassetteEntry, files, merge
from guidebench.harness.models.segments import Segmented
from guidebench.harness.records.leases import Fenced
from tests.harness.models.test_cassette import TOOK, A, B, question, rows, tell, ticket_of
from tests.refusals import check_refused

IMAGE = {"d" * 64: b"png"}


class Machine:
    """A machine with its own disk, on which model processes begin and end."""

    def __init__(self, place: Path, study: Path, cell: str = "cell") -> None:
        self.place, self._study, self._cell = place, study, cell
        place.mkdir()
        study.mkdir(parents=True, exist_ok=True)

    def process(self) -> Segmented:
        merged = self._study / MERGED
        return Segmented([merged] if merged.exists() else [], self.place, self._study, self._cell)


def shards(study: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[2] for path in study.glob("shard-*.sqlite"))


def calls(study: Path) -> int:
    """Return how many calls the study has paid for."""
    return sum(model.spent.calls for model in exchange.stats(study.parent).models)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return tmp_path / "study" / "models"


def test_what_is_published_is_found_on_another_machine_and_what_is_not_is_lost_with_its_own(
    tmp_path: Path, study: Path
) -> None:
    first = Machine(tmp_path / "1", study).process()
    tell(first, A, ticket_of(), 0.25)
    first.publish()
    tell(first, B, ticket_of(), 0.75)
    assert (first.find(A, ticket_of()).value, first.find(B, ticket_of()).value) == (0.25, 0.75)  # type: ignore[union-attr]
    second = Machine(tmp_path / "2", study).process()  # the first machine died
    assert second.find(A, ticket_of()).value == 0.25 and second.find(B, ticket_of()) is None  # type: ignore[union-attr]
    other_cell = Machine(tmp_path / "3", study, "other").process()
    assert other_cell.find(A, ticket_of()) is None  # answers of other cells are read once they are merged
    for process in (second, other_cell):
        process.publish()
    merge(study)
    assert Machine(tmp_path / "4", study, "other").process().find(A, ticket_of()).value == 0.25  # type: ignore[union-attr]


def test_what_was_paid_counts_once(tmp_path: Path, study: Path) -> None:
    process = Machine(tmp_path / "1", study).process()
    for number in range(3):
        tell(process, question(str(number)), ticket_of(ordinal=number), 0.5)
        process.publish()
    process.publish()  # nothing is new
    process.close()
    assert shards(study) == ["000001.sqlite", "000002.sqlite", "000003.sqlite"] and calls(study) == 3
    merge(study)
    assert [path.name for path in files(study)] == [MERGED] and calls(study) == 3
    assert len(rows(study / MERGED, "SELECT * FROM answers")) == 3


def test_a_process_that_died_leaves_its_shard_to_the_next_one_of_its_machine(tmp_path: Path, study: Path) -> None:
    machine = Machine(tmp_path / "1", study)
    died = machine.process()
    tell(died, A, ticket_of(), 0.25)
    Cassette.close(died)  # closes the files, as a kill does
    next_ = machine.process()
    assert shards(study) == [] and next_.find(A, ticket_of()).value == 0.25  # type: ignore[union-attr]
    tell(next_, B, ticket_of(), 0.5)
    next_.publish()
    assert shards(study) == ["000001.sqlite"] * 2 and calls(study) == 2
    assert next_.find(A, ticket_of()).value == 0.25  # type: ignore[union-attr]


def test_a_process_whose_runs_were_lost_tells_what_it_spent_and_no_answer(tmp_path: Path, study: Path) -> None:
    fenced = Machine(tmp_path / "1", study).process()
    tell(fenced, A, ticket_of(), 0.25)
    fenced.publish()
    tell(fenced, B, ticket_of(), 0.75)
    follower = Machine(tmp_path / "2", study).process()
    tell(follower, B, ticket_of(), 0.5)  # asked again
    with pytest.raises(Fenced, match="another process has taken over the runs"):
        fenced.publish([Path(__file__)])
    fenced.bill()
    follower.publish()
    assert calls(study) == 3
    merge(study)
    assert calls(study) == 3
    with closing(Cassette([study / MERGED], None)) as merged:
        assert (merged.find(A, ticket_of()).value, merged.find(B, ticket_of()).value) == (0.25, 0.5)  # type: ignore[union-attr]


def test_an_image_is_published_once(tmp_path: Path, study: Path) -> None:
    process = Machine(tmp_path / "1", study).process()
    assert process.lacks(IMAGE) == set(IMAGE)
    answer = cassette.Answer(0.5, "", TOOK, TOOK, {})
    process.record(CassetteEntry(A, ticket_of(), "tiny", answer, IMAGE, TOOK))
    assert process.lacks(IMAGE) == set()
    process.publish()
    assert process.lacks([*IMAGE, "e" * 64]) == {"e" * 64}


def test_a_shard_that_cannot_be_copied_names_it_and_is_kept(
    tmp_path: Path, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Machine(tmp_path / "1", study).process()
    tell(process, A, ticket_of(), 0.25)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full)
        check_refused(r"shard-cell-.*cannot be written \(No space left on device\); make room", process.publish)
    process.publish()
    assert shards(study) == ["000001.sqlite"]


def test_a_damaged_shard_of_the_cell_is_named(tmp_path: Path, study: Path) -> None:
    study.mkdir(parents=True)
    (study / "shard-cell-1.sqlite").write_bytes(np.random.default_rng(0).bytes(5_000))
    check_refused(r"shard-cell-1.sqlite is no cassette", Machine(tmp_path / "1", study).process)
