"""A measured study is kept without what only training needs, and with one policy in each row of a primary claim."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.claims import Claim, Claims, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.models import exchange
from guidebench.harness.records.study import POLICY
from tests.harness.models.test_exchange import CALLS, record
from tests.reports.conftest import Writer
from tools.measured import main

GUIDED, BASE = ("method=vlm_rb",), ("method=uer",)
CLAIMS = Claims(
    (Claim(GUIDED, BASE, None, "final success", "higher", True),),
    "", ("suite=grid",), n=4, delta=0.2, sigma=0.1, pilot="", hours=1.0,
)  # fmt: skip


def write_study(directory: Path, seeds: tuple[int, ...]) -> Path:
    """Write a study whose runs succeed in 1, 3, 2 and 4 of four episodes, in the order of the seeds."""
    writer = Writer(directory)
    for name, method in (("guided", "vlm_rb"), ("base", "uer")):
        curves = {
            seed: {100: [1] * count + [0] * (4 - count)} for seed, count in zip(seeds, (1, 3, 2, 4), strict=False)
        }
        writer.cell(name, curves, method=method, steps=100)
    study = writer.claim(CLAIMS, {key_of(GUIDED): ["guided"], key_of(BASE): ["base"]})
    for run in results.study(study).runs:
        home = study / run.directory
        (home / POLICY).write_bytes(f"{run.cell.id} {run.seed}".encode())
        (home / "metrics.parquet").write_bytes(b"")
        (home / ".lease").mkdir()
        (home / ".lease" / "1").write_bytes(b"")
    return study


def test_each_row_of_a_primary_claim_has_the_policy_of_its_lower_median(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", CLAIMS.seeds)
    main(study, tmp_path / "measured")
    policies = sorted((tmp_path / "measured").rglob(POLICY))
    assert [policy.parent.name for policy in policies] == [f"seed-{CLAIMS.seeds[2]}"] * 2
    for policy in policies:
        digest = json.loads((policy.parent / "run.json").read_text())["policy_digest"]
        assert digest == hashlib.sha256(policy.read_bytes()).hexdigest()
    files = {path.name for path in (tmp_path / "measured").rglob("*") if path.is_file()}
    assert {"study.json", "claims.json", "cell.json", "run.json", POLICY} <= files
    assert not files & {"metrics.parquet", "1"}
    assert len(results.load(tmp_path / "measured")) == len(results.load(study))


def test_recorded_calls_are_kept_compressed_and_can_be_imported(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", CLAIMS.seeds)
    record(study).close()
    main(study, tmp_path / "measured")
    assert not (tmp_path / "measured" / "models").exists()
    assert exchange.import_(tmp_path / "measured" / "calls.sqlite.xz", tmp_path / "other") == len(CALLS)


def test_a_study_with_missing_runs_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="have not finished"):
        main(write_study(tmp_path / "study", CLAIMS.seeds[:3]), tmp_path / "measured")
