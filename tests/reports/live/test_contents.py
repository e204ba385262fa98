"""Which runs the live page lists."""

import os
import re

import pytest

from guidebench.harness.records.leases import Lease
from guidebench.reports.live import contents
from guidebench.results.following import Following
from tests.reports.conftest import Writer


def test_of_many_runs_those_that_need_a_reader_are_listed_and_the_others_counted(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 15 runs of uer, 3 have not begun, 1 failed and 11 have finished; of per's, one runs and one was stopped."""
    monkeypatch.setattr(contents, "RUNS", 8)
    states = {**dict.fromkeys(range(12), "finished"), 10: "failed"}
    root = writer.cell("a", {seed: {100: [1]} for seed in states}, status=states, planned=range(15))
    writer.cell("b", {0: {}, 1: {}}, method="per", status={0: "running", 1: "stopped"})
    for seed in states:
        os.utime(root / f"seed-{seed}/run.json", (1_000 - seed, 1_000 - seed))  # the newest run is seed 0
    writer.finish()
    lease = Lease(writer.directory / "grid/8x8/per-b/seed-0", "run")
    lease.acquire()
    with Following(writer.directory) as following:
        following.look()
        page = contents.Contents(following).parts(set())["runs"]
    lease.release()
    rows = [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in re.findall(r"<tr data-key.*?</tr>", page, re.DOTALL)]
    texts = [[re.sub("<.*?>", " ", cell).split() for cell in row[:2]] for row in rows]
    assert [(seed[0], state[0]) for seed, state in texts] == [
        *((str(seed), "finished") for seed in range(5)), ("10", "failed"), ("0", "running"), ("1", "stopped"),
    ]  # fmt: skip
    assert "Of all runs 8 are listed" in page and "Not listed: 3 waiting, 6 finished." in page
