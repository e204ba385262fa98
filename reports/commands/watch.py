"""`bench watch STUDY` serves a page on this machine that shows a study while it trains: runs, curves and tables.

  bench watch runs/NAME                  print the page's address; open it in a browser
  bench watch runs/NAME --port 8080      an address that stays the same, such as for ssh -L 8080:localhost:8080

The page follows the study by itself as rows arrive. The study may be finished, or not have begun. Only programs on this
machine reach the page, and it changes nothing. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import os
import signal
import webbrowser
from pathlib import Path

from guidebench.harness.errors import UserError

HELP = "serve a page on this machine that shows a study while it trains"
PORTS = 65_535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench watch`."""
    parser.add_argument(
        "study", metavar="STUDY", type=Path, help="directory that `bench run` writes, or will write, such as runs/NAME"
    )
    parser.add_argument("--port", metavar="N", type=int, default=0, help="port of the page (default: one that is free)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM; raise UserError for a port that cannot be taken, or a path that is no
    directory."""
    if not 0 <= args.port <= PORTS:
        raise UserError(f"--port {args.port}: a port is a number from 1 to {PORTS}, or 0 for one that is free")
    if args.study.exists() and not args.study.is_dir():
        raise UserError(f"{args.study} is a file, not a study; give the directory that `bench run … output=DIR` writes")
    if (args.study.absolute().parent / "cell.json").is_file():
        study = args.study.absolute().parents[3]
        raise UserError(f"{args.study} is a run; give its study, {study}, whose page links to the page of each run")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its products are small: threads would only wait for each other
    from guidebench.reports.live.watching import watch

    def begun(address: str) -> None:
        print(f"{args.study}: {address}  (Ctrl-C ends it)", flush=True)
        if args.open:
            webbrowser.open(address)

    interrupts: list[int] = []

    def end(number: int, frame: object) -> None:
        if interrupts:  # the second Ctrl-C does not wait
            raise KeyboardInterrupt
        interrupts.append(number)

    before = {signal_number: signal.signal(signal_number, end) for signal_number in (signal.SIGINT, signal.SIGTERM)}
    try:
        watch(args.study, args.port, begun, lambda: bool(interrupts))
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)
    print("bench watch: ended")
    return 0
