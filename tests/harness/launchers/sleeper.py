"""A worker that trains nothing: it starts a second process, reports that it has started, and sleeps."""

import json
import os
import sys
import time
from multiprocessing.connection import Connection

from guidebench.harness.companions import Companion


def serve(connection: Connection) -> None:
    """Send this process's id and sleep."""
    connection.recv()
    connection.send(os.getpid())
    time.sleep(600)


def main() -> int:
    sys.stdin.read()
    beside = Companion(serve)
    beside.send("who")
    print(json.dumps({"event": "started", "worker": os.getpid(), "beside": beside.receive()}), flush=True)
    time.sleep(600)
    return 0
