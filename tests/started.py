"""Imported into the interpreter from which the tests' processes fork: they neither wait for disks nor time updates.

No test cuts the power, so none needs what was written to be on a disk; only tests of estimates need timings.
"""

import os

from guidebench.harness.run import estimates

os.fsync = lambda handle: None  # type: ignore[assignment]
estimates.SECONDS = 0.0
