"""Shared by the suite's tests: a table of preferences on disk, and a small version of Housekeep's published file."""

import csv

import numpy as np
import pytest

from guidebench.suites.housekeep.preferences import COLUMNS, OURS


@pytest.fixture
def table(tmp_path):
    """Return a function that writes this project's table of preferences with its rows changed by a function, which
    returns None to leave a row out."""

    def write(change=lambda row: row, name="table.csv", columns=tuple(COLUMNS)):
        rows = list(csv.reader(OURS.open()))[1:]
        path = tmp_path / name
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([columns, *(new for row in rows if (new := change(list(row))) is not None)])
        return path

    return write


@pytest.fixture
def annotations():
    """Return the content of a small amt_data/data.npy of Housekeep: a majority of raters says yes where our table
    does."""
    rows = list(csv.reader(OURS.open()))[1:]
    places = sorted({f"{room}|{receptacle}" for room, receptacle, *_ in rows})
    objects = sorted({row[2] for row in rows})
    ranks = np.zeros((len(places), len(objects), 10), np.int64)
    for room, receptacle, thing, positive, _ in rows:
        # six raters say yes and four no, or five yes and five no
        ranks[places.index(f"{room}|{receptacle}"), objects.index(thing)] = [
            *([2, 1, 1, 3, 1, 4] if positive == "1" else [1, 2, 1, 1, 1, -1]), -1, -2, 0, 0,
        ]  # fmt: skip
    return {"ranks": ranks, "objects": objects, "room_receptacles": places}


@pytest.fixture
def published(tmp_path, annotations):
    """Return a function that writes a file in the form of Housekeep's amt_data/data.npy, a pickled dictionary: no other
    form tests the reader. Nothing here unpickles it."""

    def write(content=None, **changed):
        path = tmp_path / "data.npy"
        np.save(path, annotations | changed if content is None else content, allow_pickle=True)
        return path

    return write
