"""Stop processes with SIGSTOP, which takes effect a moment after it was sent."""

import os
import signal

from guidebench.harness import heartbeats
from tests.harness.launchers.scheduled import wait_until


def stop(*processes: int) -> None:
    """Stop processes and wait until they are stopped."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    wait_until(lambda: all(map(heartbeats.is_stopped, processes)), every=0.01)
