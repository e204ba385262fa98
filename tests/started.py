"""Imported into the interpreter from which the tests' processes fork: they neither wait for disks nor time updates.

No test cuts the power, so none needs what was written to be on a disk; only tests of estimates need timings. What a
process that trains would import or compile is imported and compiled here, once for all of them. What a process imports
that loads a model of transformers is imported here as well, but for the client of the Hub, which reads its settings
from the environment when it is imported.
"""

import contextlib
import importlib
import os
import pkgutil

import numpy as np

from guidebench import baselines, methods
from guidebench.baselines.sum_tree import MaxSumTree
from guidebench.harness.plan import matrix
from guidebench.harness.run import estimates

os.fsync = lambda handle: None  # type: ignore[assignment]
estimates.SECONDS = 0.0
matrix.plan(["suite=classic", "task=CartPole-v1", "method=uer", "profile=smoke"])
for package in (baselines, methods):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        with contextlib.suppress(ImportError):  # of an extra that is missing
            importlib.import_module(module.name)
with contextlib.suppress(ImportError):
    import gymnasium  # noqa: F401
tree = MaxSumTree(1, 2)
tree.set(np.zeros((1, 1), np.int64), np.ones((1, 1)))
tree.sample(np.zeros((1, 1)))
for module in ("minigrid", "torch._dynamo", "torch.distributed.tensor", "scipy.optimize", "torchvision.transforms"):
    with contextlib.suppress(ImportError):  # of an extra that is missing
        importlib.import_module(module)
