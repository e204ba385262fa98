"""Print BibTeX for what a study used: suites, methods, learners, replays, guides, agents and models, each entry
once.

Examples:
  bench cite runs/mine > used.bib
"""

from __future__ import annotations

import argparse
import sys

HELP = "print BibTeX for every suite, method, learner, replay and model of a study"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench cite`."""
    parser.add_argument("studies", metavar="STUDY", nargs="+", help="directory of a study, or `measured`")


def run(args: argparse.Namespace) -> int:
    """Print the BibTeX entries of the studies' parts. Name parts without a known entry in a comment and on the error
    stream."""
    from dataclasses import replace

    from guidebench import results
    from guidebench.reports.summary import citations

    studies = [study for name in args.studies for study in results.opened(name).values()]
    everything = replace(studies[0], cells=tuple(cell for study in studies for cell in study.cells))
    cited = citations.cite(everything)
    print(cited.text, end="")
    for line in cited.missing:
        print(f"bench cite: {line}", file=sys.stderr)
    return 0
