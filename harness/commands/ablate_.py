"""Run a method and its declared ablations as one study.

Overrides are those of `bench run`; a sweep runs the ablations for each value. The same command continues where it
stopped.
`bench show method=…` lists the ablations.
"""

from __future__ import annotations

import argparse

from guidebench.harness.commands import run_

HELP = "run a method and its declared ablations"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    run_.add_arguments(parser)
    run_.add_only(parser, "ablations: names (lambda_max=0.5) or groups (lambda_max)")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.plan import matrix, variations

    return run_.carry_out(variations.ablations(matrix.plan(args.overrides), run_.only(args)), args)
