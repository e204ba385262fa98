"""Try the grids of settings that claims declare, on tuning seeds, and write what did best into the claims.

Each row has a grid of as many entries, so that no method is tuned more than another. The words that did best become
part of their row. Their digest changes, and with it the seeds of the study, so tuning comes before every seed of it.
The same command continues where it stopped.

  bench tune claims=runs/pilot-minigrid_doorkey-uer-vlm_rb/claims.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from guidebench.harness.errors import UserError

HELP = "tune the rows of claims with equal numbers of runs, before their study"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="+", metavar="key=value", help="claims=FILE and execution settings")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness import claims
    from guidebench.harness.commands.pilot_ import train
    from guidebench.harness.plan.claim_rows import CLAIMS, LOOK, is_execution_word
    from guidebench.harness.plan.grammar import parse
    from guidebench.harness.run import tuning

    overrides = {override.key: override for override in parse(args.overrides)}
    if CLAIMS not in overrides:
        raise UserError("claims= is missing; name the file that bench pilot wrote, with grids added under tuning")
    if strange := next((key for key in overrides if not is_execution_word(key) or key == LOOK), None):
        raise UserError(f"{strange}= is given, but the claims say what is tuned; leave it out")
    path = Path(str(overrides[CLAIMS].values[0]))
    record = claims.read(path)
    execution = [word for word in args.overrides if word.partition("=")[0] != CLAIMS]
    grid = tuning.trials(record, path, execution)
    rows = {trial.row for trial in grid}
    runs = len(grid) * len(grid[0].plan.seeds) // len(rows)
    print(f"tuning {len(rows)} rows by {runs} runs each", flush=True)
    tuned = tuning.carry_out(record, path, execution, train)
    for row, words in (tuned.tuning.chosen if tuned.tuning else {}).items():
        print(f"{row}: {' '.join(words)}")
    print(f"wrote {path}; its digest and seeds are new. Commit it before the study runs.")
    return 0
