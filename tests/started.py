"""Imported into the interpreter from which the tests' processes fork: they neither wait for disks nor time updates.

No test cuts the power, so none needs what was written to be on a disk; only tests of estimates need timings. What a
process that trains would import or compile is imported and compiled here, once for all of them. What a process imports
that loads a model of transformers is imported here as well, but for the client of the Hub, which reads its settings
from the environment when it is imported. The model of bin_sorting, which takes a second to compile, is compiled here:
a run asks several processes that draw it.
"""

import contextlib
import importlib
import os
import pkgutil

import numpy as np

from guidebench import baselines, methods, suites
from guidebench.baselines.sum_tree import MaxSumTree
from guidebench.harness.models import backends
from guidebench.harness.plan import matrix
from guidebench.harness.run import estimates

os.fsync = lambda handle: None  # type: ignore[assignment]
estimates.SECONDS = 0.0
matrix.plan(["suite=classic", "task=CartPole-v1", "method=uer", "profile=smoke"])
for name in (
    "torch._dynamo", "torch.distributed.tensor", "scipy.optimize", "scipy.stats", "torchvision.transforms",  # before OSMesa: see gl.py
    "openai", "altair", "gymnasium.envs.mujoco", "gymnasium_robotics", "metaworld", "crafter", "minigrid", "ogbench.manipspace",
):  # fmt: skip
    with contextlib.suppress(ImportError):  # of an extra that is missing
        importlib.import_module(name)
for package in (baselines, methods, suites, backends):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        with contextlib.suppress(ImportError):  # of an extra that is missing
            importlib.import_module(module.name)
with contextlib.suppress(ImportError):
    from guidebench.suites.bin_sorting import dynamics

    dynamics.model()  # compiled once, for all who copy it
tree = MaxSumTree(1, 2)
tree.set(np.zeros((1, 1), np.int64), np.ones((1, 1)))
tree.sample(np.zeros((1, 1)))
