"""How far each run of a study is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

HELP = "how far each run of a study is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="directory of the study, as `bench run` printed it")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from harness.records.study import StudyDirectory

    study = StudyDirectory(args.study)
    rows = []
    for entry, found in study.runs():
        content = found.read()
        method = Path(entry["directory"]).name.rsplit("-", 1)[0]
        rows.append(
            {
                "task": str(Path(entry["directory"]).parent),
                "method": method,
                "variant": entry.get("label_variant", ""),
                "seed": int(found.path.name.removeprefix("seed-")),
                "status": content.get("status", "waiting"),
                "step": content.get("step", 0),
                "steps": content.get("steps"),
                "error": content.get("error"),
            }
        )
    if args.json:
        print(json.dumps({"study": study.read()["study"], "runs": rows}, indent=1))
        return 0
    print(f"{study.read()['study']}: {sum(row['status'] == 'finished' for row in rows)} of {len(rows)} runs finished")
    for row in rows:
        share = f"{row['step']:>9,} of {row['steps']:,}" if row["steps"] else ""
        name = f"{row['method']}{' (' + str(row['variant']) + ')' if row['variant'] else ''}"
        print(f"  {row['task']:<26} {name:<30} seed {row['seed']:<4} {row['status']:<9} {share}")
        if row["error"]:
            print(f"    {str(row['error']).splitlines()[-1]}")
    return 0
