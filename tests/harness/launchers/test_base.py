"""What a launcher's jobs record about the machine that submits them."""

from pathlib import Path

import pytest

from guidebench.harness.execution import Execution
from guidebench.harness.identity import provenance, sources
from guidebench.harness.identity.cells import record
from guidebench.harness.launchers import base
from guidebench.harness.loop.job import Job
from guidebench.harness.plan import matrix


def test_jobs_name_sources_and_packages_and_the_sources_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = matrix.plan(["suite=minigrid_doorkey", "method=uer,per", "profile=smoke", "learner.lr=1e-3,1e-4"]).cells
    jobs = [Job("mine", str(tmp_path), record(cell), (seed,)) for cell in cells for seed in (0, 1)]
    assert len(jobs) == 8
    snapshots: list[sources.Sources] = []
    snapshot = sources.Sources
    monkeypatch.setattr(sources, "Sources", lambda: (snapshots.append(snapshot()), snapshots[-1])[1])
    prepared = base.elsewhere(jobs, Execution())
    assert len(snapshots) == 1
    assert [job.code for job in prepared] == [provenance.code(cell.names) for cell in cells for _ in (0, 1)]
    assert prepared[0].code != prepared[-1].code and "package torch" in prepared[0].code
    assert all(job.shared for job in prepared)
    assert not any(job.code for job in base.elsewhere(jobs, Execution(mixed_commits=True)))
