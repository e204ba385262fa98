"""How far each run of a study is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

HELP = "how far each run of a study is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="directory of the study, as `bench run` printed it")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from harness.records.schema import LEDGER
    from harness.records.study import StudyDirectory

    study = StudyDirectory(args.study)
    rows = []
    for entry, found in study.runs():
        content = found.read()
        method = Path(entry["directory"]).name.rsplit("-", 1)[0]
        spent = last_row(found.path / "ledger.jsonl")
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
                "models": {name: spent.get(name, 0) for name in LEDGER} if spent else None,
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
    accounts = [row["models"] for row in rows if row["models"]]
    total = {name: sum(account[name] for account in accounts) for name in LEDGER}
    if any(total[name] for name in ("tokens_in", "usd", "failures")):  # a hand-written judge costs nothing
        print(
            f"models: {total['calls']:,} calls, {total['failures']:,} of them without an answer, "
            f"{total['tokens_in']:,} tokens in, {total['tokens_out']:,} out, {total['images']:,} images, "
            f"{total['usd']:.4f} USD; really billed {total['billed_calls']:,} calls, {total['billed_usd']:.4f} USD"
        )
    return 0


def last_row(path: Path) -> dict[str, Any]:
    """The last whole line of a log, or nothing."""
    if not path.exists():
        return {}
    for line in reversed(path.read_bytes().splitlines()):
        try:
            row = json.loads(line)
        except ValueError:  # the writer was cut short
            continue
        return row if isinstance(row, dict) else {}
    return {}
