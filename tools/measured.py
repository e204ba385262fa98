"""Copy a finished study to results/measured in compact form: `python -m tools.measured STUDY results/measured/NAME`.

Evaluations, records, timings, ledgers and the report's table and summary are kept. Of a study with claims, each row of
a primary claim keeps the policy of one seed, that with the lower median of the claimed score, if the file has at most
450 kB; its SHA-256 is in run.json. Recorded calls are exported to calls.sqlite.xz, if that has at most 3 MB, so that
`bench models import` and `models.mode=replay` repeat the study without its models. Files that the destination holds
already, such as its README.md, stay.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from guidebench import results
from guidebench.harness.claims import claim_score, key_of
from guidebench.harness.errors import UserError
from guidebench.harness.models import exchange
from guidebench.harness.records.files import read_json, write_json
from guidebench.harness.records.study import POLICY, POLICY_DIGEST, RunDirectory
from guidebench.harness.run.scores import run_score, sign
from guidebench.results.claims import claimed_rows
from guidebench.results.store import StudyRecord

MOST_BYTES = 450_000
"""Most bytes of a policy that is kept."""
CALLS, MOST_CALLS = "calls.sqlite.xz", 3_000_000
"""File of the recorded calls, and the most bytes of it that are kept."""
LEFT_OUT = ("metrics.parquet", "probes.parquet", "subgoals.parquet", POLICY)
MODELS = "models"
REPORT = ("summary.json", "table.tex")


def policies_to_keep(study: StudyRecord) -> Iterator[Path]:
    """Yield the policies that are kept, relative to the study's directory. Raise UserError if a row lacks runs."""
    if study.claims is None:
        return
    rows = claimed_rows(study, study.claims)
    chosen = set()
    for claim in study.claims.content.claims:
        if not claim.primary:
            continue
        score = claim_score(claim.score)
        for row in filter(None, (claim.first, claim.second, claim.placebo)):
            claimed = rows[key_of(row)]
            if claimed.missing:
                raise UserError(f"{' '.join(row)}: seeds {', '.join(map(str, claimed.missing))} have not finished")
            for cell in claimed.cells:
                runs = [run for run in study.runs if run.cell.id == cell.id]
                scores = {
                    run.directory: sign(score, cell.score)
                    * run_score(RunDirectory(study.directory / run.directory), score, cell.score).score
                    for run in runs
                }
                ordered = sorted(scores, key=lambda directory: (scores[directory], directory))
                chosen.add(Path(ordered[(len(ordered) - 1) // 2]) / POLICY)
    for policy in sorted(chosen):
        if (study.directory / policy).stat().st_size > MOST_BYTES:
            print(f"left out, since it has more than {MOST_BYTES:,} bytes: {policy}", file=sys.stderr)
        else:
            yield policy


def main(source: Path, destination: Path) -> None:
    """Copy what is kept of a study."""
    study = results.study(source)
    policies = {*policies_to_keep(study)}
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        place = file.relative_to(source)
        hidden = any(part.startswith(".") for part in place.parts)
        left_out = place.name in LEFT_OUT or place.parts[0] in ("logs", MODELS)
        left_out |= place.parts[0] == "report" and (len(place.parts) > 2 or place.name not in REPORT)
        if (hidden or left_out) and place not in policies:
            continue
        (destination / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, destination / place)
    for policy in policies:  # runs of older versions do not name their policies
        record = destination / policy.with_name("run.json")
        digest = hashlib.sha256((destination / policy).read_bytes()).hexdigest()
        write_json(record, {**read_json(record), POLICY_DIGEST: digest})
    if any((source / MODELS).glob("*.sqlite")):
        (destination / CALLS).unlink(missing_ok=True)
        exchange.export(source, destination / CALLS)
        if (count := (destination / CALLS).stat().st_size) > MOST_CALLS:
            (destination / CALLS).unlink()
            print(f"left out, since they take {count:,} bytes, above {MOST_CALLS:,}: recorded calls", file=sys.stderr)
    print(f"{destination}: {sum(path.stat().st_size for path in destination.rglob('*') if path.is_file()):,} bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
