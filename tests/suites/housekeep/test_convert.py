"""Housekeep's published file becomes a table without being unpickled; every other pickle is refused."""

import os
import pickle

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.suites.housekeep import TABLE, Housekeep
from guidebench.suites.housekeep.convert import convert, interpret, opened
from guidebench.suites.housekeep.preferences import ours, read
from tests import programs
from tests.refusals import check_refused


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_published_form_becomes_a_table(published, tmp_path, suffix):
    target = tmp_path / f"preferences.{suffix}"
    name = convert(published(), target)
    table = read(target)
    assert table.name == name != TABLE
    assert table.votes["kitchen", "sink"]["sponge"] == (6, 10) and table.votes["kitchen", "sink"]["mug"] == (5, 10)
    for thing in table.votes["kitchen", "sink"]:
        assert table.correct("kitchen", thing) == ours().correct("kitchen", thing)
    Housekeep(preferences=str(target), table=name).ready("adjustment_1")


def test_arrays_of_texts_and_other_numbers_are_read(published, annotations):
    names, numbers = annotations["objects"], annotations["ranks"]
    for objects in (np.array(names), np.array(names, object)):
        for ranks in (numbers.astype(np.int8), numbers.astype(">i4")):
            reread = opened(published(objects=objects, ranks=ranks))
            assert reread.objects == names and np.array_equal(reread.ranks, numbers)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_binary_protocol_is_read(protocol):
    value = {"a": [1, -2, 3.5, None, True, False, 10**12, "ä", (1, 2), (1, 2, 3), (4,), (), b"x\xff"], "b": {"c": []}}
    assert interpret(pickle.dumps(value, protocol)) == value


class Harmful:
    """An object whose pickle calls os.mkdir, which makes a directory where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_would_run_code_is_refused_by_name_and_runs_none(published, tmp_path):
    harmful = Harmful(tmp_path / "made")
    path = published({"ranks": harmful, "objects": [], "room_receptacles": []})
    check_refused(r"data\.npy: its pickle names posix\.mkdir.*could run code", convert, path, tmp_path / "out.parquet")
    assert not (tmp_path / "made").exists() and not (tmp_path / "out.parquet").exists()
    call, arguments = harmful.__reduce__()
    call(*arguments)  # the call in the pickle does make the directory
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"content": [1, 2]}, r"array of int64 of shape \(2,\); expected one pickled dictionary"),
        ({"content": {"votes": 1}}, r"holds votes; expected a dictionary of ranks, objects and room_receptacles"),
        ({"objects": [1, 2]}, "its objects are no list of texts"),
        ({"objects": ["mug"]}, r"ranks have the shape \[16, 24, 10\]; expected \[16 receptacles, 1 objects"),
        ({"ranks": [[1]]}, "its ranks are no array of numbers"),
        ({"ranks": np.zeros((16, 24), int)}, r"shape \[16, 24\]"),
        ({"room_receptacles": [f"sink{n}" for n in range(16)]}, r"'sink0' is not of the form room\|receptacle"),
        ({"ranks": {1, 2}}, "uses the instruction EMPTY_SET|names builtins"),
        ({"ranks": np.ones(3, complex)}, r"array of .*c16; expected numbers"),
    ],
)
def test_other_contents_are_refused_by_name(published, tmp_path, fields, message):
    check_refused(message, convert, published(**fields), tmp_path / "out.parquet")


@pytest.mark.parametrize(
    ("pickled", "message"),
    [
        (b"\x80\x04]\x85.", "array with one dictionary|expected"),
        (b"\x80\x04.", "takes more values than it has"),
        (b"\x80\x04K\x01a.", "takes more values|no list"),
        (b"\x80\x04e.", "a mark that it never set"),
        (b"\x80\x04h\x05.", "recalls a value that it never kept"),
        (b"\x80\x04cbuiltins\neval\n.", r"names builtins\.eval"),
        (b"\x80\x04}K\x01K\x02s.", "key is of type int"),
        (b"\x80\x04cnumpy\ndtype\nK\x01\x85R.", "calls something other"),
        (b"\x80\x04", "fails|no end"),
        (b"\x80\x04]0.", "uses the instruction POP"),
        (b"\x80\x04}p0\n.", "uses the instruction PUT"),
    ],
)
def test_damaged_and_hostile_pickles_are_refused(tmp_path, pickled, message):
    path = tmp_path / "data.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": ()})
        file.write(pickled)
    check_refused(message, convert, path, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_names_of_files_are_checked(published, tmp_path):
    source = published()
    check_refused(r"none\.npy is no file", convert, tmp_path / "none.npy", tmp_path / "out.csv")
    check_refused(
        r"ends in '\.json'; name a file that ends in \.parquet or \.csv", convert, source, tmp_path / "out.json"
    )
    with pytest.raises(UserError, match=r"data\.csv exists"):
        (tmp_path / "data.csv").touch()
        convert(source, tmp_path / "data.csv")
    (tmp_path / "text.npy").write_text("ranks")
    check_refused(r"text\.npy is no file of NumPy's", convert, tmp_path / "text.npy", tmp_path / "out.csv")


def test_the_command_prints_how_to_use_the_table(published, tmp_path):
    words = ["guidebench.suites.housekeep.convert", str(published()), str(tmp_path / "t.parquet")]
    source = f"import runpy, sys; sys.argv = {words}; runpy.run_module({words[0]!r}, run_name='__main__')"
    done, repeated = (programs.python(source) for _ in range(2))
    assert f"suite.preferences={tmp_path / 't.parquet'} suite.table={read(tmp_path / 't.parquet').name}" in done.out
    assert repeated.code == 2 and "exists; name a file that does not" in repeated.err
