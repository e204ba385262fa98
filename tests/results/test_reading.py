"""A process of its own bounds what a file takes that lies about itself."""

from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.results.evaluations import evaluations
from guidebench.results.reading import Reader
from guidebench.results.store import StudyRecord
from tests.reports.conftest import Writer

SOLVED = {seed: {300: [1] * 10} for seed in range(2)}


@pytest.fixture
def study(tmp_path: Path) -> StudyRecord:
    writer = Writer(tmp_path / "good")
    writer.cell("a", SOLVED)
    return results.study(writer.finish())


@pytest.fixture
def lying(tmp_path: Path) -> StudyRecord:
    """Write a quarter of a million rows that repeat the same megabyte, in a file of some KB whose footer claims 5,000
    bytes: unpacked, each 2,048 rows take 2 GiB. They are read as numbers of a dictionary."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = Writer(tmp_path / "lying")
    path = writer.cell("a", SOLVED) / "seed-0" / "evaluations.parquet"
    row = pq.read_table(path).slice(0, 1).to_pylist()[0]
    columns = {name: pa.repeat(value, 250_000) for name, value in row.items()}
    columns["method"] = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), 250_000), ["y" * 2**20])
    pq.write_table(pa.table(columns), path, compression="zstd", write_statistics=False)
    group = pq.read_metadata(path).row_group(0)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:]
    (column,) = (chunk for chunk in map(group.column, range(group.num_columns)) if chunk.path_in_schema == "method")
    for size in (group.total_byte_size, column.total_uncompressed_size):
        stated_size = _varint(size, 0)
        assert footer.count(stated_size) == 1
        footer = footer.replace(stated_size, _varint(5_000, len(stated_size)))
    path.write_bytes(content[:start] + footer)
    return results.study(writer.finish())


def _varint(number: int, length: int) -> bytes:
    """Encode a number as a varint of Thrift's compact protocol, padded to `length` bytes."""
    rest, septets = number << 1, []
    while rest or len(septets) < length or not septets:
        septets.append(rest & 127)
        rest >>= 7
    return bytes([part | 128 for part in septets[:-1]] + septets[-1:])


def test_a_reader_reads_as_this_process_does_and_goes_on_after_a_file_whose_footer_lies(
    study: StudyRecord, lying: StudyRecord
) -> None:
    with Reader(memory=2**29) as reader:
        with pytest.raises(UserError, match="column 'method': 'yyy"):
            reader.read(lying)
        by_reader = reader.read(study)
    in_process = evaluations(study)
    assert list(by_reader) == list(in_process)
    assert all(
        (theirs == ours).all()
        for key in in_process
        for theirs, ours in zip(by_reader[key], in_process[key], strict=True)
    )


def test_a_read_that_takes_too_long_is_ended_and_the_next_one_begins_anew(study: StudyRecord) -> None:
    with Reader(seconds=0.0) as reader:
        for _ in range(2):
            with pytest.raises(UserError, match="takes longer than 0 s"):
                reader.read(study)


def test_an_error_names_what_is_amiss_and_warnings_come_along(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "cut")
    path = writer.cell("a", SOLVED, status={0: "running"}) / "seed-0" / "evaluations.jsonl"
    path.write_text(path.read_text()[:-20])
    study = results.study(writer.finish())
    with Reader() as reader:
        with pytest.warns(UserWarning, match="cut short"):
            reader.read(study)
        path.write_text("{}\n" + path.read_text())
        with pytest.raises(UserError, match=r"evaluations\.jsonl, row 1: lacks the column"):
            reader.read(study)
