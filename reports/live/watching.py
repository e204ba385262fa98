"""Follow a study and keep its page up to date, until the command is interrupted."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from guidebench.harness.texts import printable
from guidebench.reports.live import contents, server
from guidebench.reports.live.contents import Contents
from guidebench.reports.live.remaking import Remaking
from guidebench.reports.live.server import Board, Server, View
from guidebench.results.following import Following

EVERY = 0.5
"""Seconds between two looks at the study's files (choice: a quarter of the time in which a row should appear)."""
LAST = 2.0
"""Seconds that a look may take to its end when the command ends."""
INTERRUPTION = 0.2
"""Seconds between two looks whether the command was interrupted."""
LONGEST = 2.0
"""Most seconds between two looks; up to these, as long as the last one took, so that a slow disk is given rest."""


def watch(study: Path, port: int, begun: Callable[[str], None], is_interrupted: Callable[[], bool]) -> None:
    """Serve the page of a study, which need not exist yet, until `is_interrupted()`, which a signal handler may set.
    `begun` is called with the page's address.

    Raises UserError if the port cannot be taken.
    """
    ended = threading.Event()
    board = Board(study.absolute().name)
    with Remaking(study) as remaking, Server(port, board, remaking) as serving, Following(study) as following:
        serves = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        follows = threading.Thread(target=_follow, args=(following, board, remaking, ended), daemon=True)
        serves.start()
        follows.start()
        try:
            begun(serving.address)
            while not is_interrupted():  # a lock without a time limit can miss a signal that comes just before it
                time.sleep(INTERRUPTION)
        finally:
            ended.set()
            board.end()
            serving.shutdown()
            follows.join(LAST)


def _follow(following: Following, board: Board, remaking: Remaking, ended: threading.Event) -> None:
    """Read the study's new rows again and again until `ended` is set, and show each new state on the board."""
    page, rows = Contents(following), 0
    pending: set[str] = set()
    rest = 0.0
    while not ended.wait(rest):
        started = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pending |= following.look()
                if pending and not rows:
                    board.show(_view(following, page.parts(set()), remaking))  # curves of many runs take a while
                rows += bool(pending)
                parts = page.parts(pending)
            pending = set()
            if following.curves and (board.streams or board.is_awaited):
                remaking.want(rows)
            board.show(_view(following, parts, remaking))
        except Exception as error:  # whatever is wrong with the files, the page stays and says so
            message = f"The study cannot be shown ({type(error).__name__}: {printable(str(error))[:300]})."
            board.show(board.view._replace(made=message))
        rest = max(EVERY, min(LONGEST, time.monotonic() - started))


def _view(following: Following, parts: dict[str, str], remaking: Remaking) -> View:
    study = following.study
    stamps = {run.directory: following.stamp(run.directory) for run in study.runs} if study else {}
    return View(
        study.name if study else following.directory.absolute().name,
        contents.title(study) if study else following.directory.absolute().name,
        parts,
        server.versions(parts),
        remaking.status,
        server.run_addresses({directory: stamp for directory, stamp in stamps.items() if stamp is not None}),
    )
