"""`bench watch` as a process of its own, as a user starts it."""

import http.client
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from guidebench.harness.records import schema
from tests import programs
from tests.reports.conftest import IDENTITY

PATIENCE = 60.0
"""Seconds within which an answer must have come, however busy the machine is."""


class Answer(NamedTuple):
    """Status, headers and body of an HTTP response."""

    status: int
    headers: dict[str, str]
    body: str


class Watch:
    """A running `bench watch` and its address."""

    def __init__(self, study: Path, *words: str) -> None:
        self.study = study
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        env = {**os.environ, "TMPDIR": str(study.parent), "PYTHONFAULTHANDLER": "1"}
        self.process = programs.start_bench("watch", str(study), *words, **pipes, text=True, env=env)
        address = re.search(r"http://127\.0\.0\.1:\d+/", self.process.stdout.readline())
        assert address is not None
        self.address = address[0]

    def get(self, path: str = "/", method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=PATIENCE)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        answer = Answer(response.status, dict(response.getheaders()), response.read().decode("utf-8", "replace"))
        connection.close()
        return answer

    def until(self, path: str, test: Callable[[Answer], bool]) -> Answer:
        """Request `path` until the answer passes the test; return that answer."""
        end = time.monotonic() + PATIENCE
        while not test(answer := self.get(path)):
            assert time.monotonic() < end, answer.body[:2_000]
            time.sleep(0.05)
        return answer

    def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """End the process by a signal; return exit code, output and errors."""
        self.process.send_signal(how)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler prints what each thread waits for
            raise AssertionError(f"bench watch did not end:\n{self.process.stderr.read()}") from None
        finally:
            self.process.kill()
        with self.process.stdout as out, self.process.stderr as errors:
            return code, out.read(), errors.read()


@pytest.fixture
def watch() -> Iterator[Callable[..., Watch]]:
    watches: list[Watch] = []

    def start(study: Path, *words: str) -> Watch:
        watches.append(Watch(study, *words))
        return watches[-1]

    yield start
    for watch_ in watches:
        if watch_.process.poll() is None:
            code, _, errors = watch_.end()
            assert (code, errors) == (0, "")


def row(step: int, episode: int, success: bool = True, *, cell: str = "a", seed: int = 0) -> dict[str, Any]:
    """Return a row of an evaluation log."""
    outcome = {"return": 0.5 * success, "success": success, "length": 10}
    named = {"study": "s", "cell": cell, **IDENTITY, "seed": seed, "step": step, "episode": episode, **outcome}
    return {name: named[name] for name in schema.EVALUATION}


def append(run: Path, *rows: dict[str, Any]) -> None:
    """Add rows to the evaluation log of a run."""
    run.mkdir(parents=True, exist_ok=True)
    with open(run / "evaluations.jsonl", "a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
