"""Preloads the interpreter from which the tests' processes are forked: they neither wait for disks nor time updates.

No test cuts the power, so none needs what was written to be on a disk; only tests of estimates need timings. Whatever a
process that trains, loads a model of transformers or asks a server would import or compile is imported and compiled
here, once for all. The client of the Hub reads its settings from the environment when it is imported, so a program that
is pointed at another Hub imports it anew (`tests.programs`). The model of bin_sorting takes a second to compile, and
each run has several processes that draw it, so it is compiled here."""

import contextlib
import importlib
import logging
import os
import pkgutil
import signal

import numpy as np

from guidebench import baselines, methods, suites
from guidebench.baselines.sum_tree import MaxSumTree
from guidebench.harness import registry, settings
from guidebench.harness.models import backends
from guidebench.harness.plan import matrix
from guidebench.harness.run.estimates import jobs

os.fsync = lambda handle: None  # type: ignore[assignment]
jobs.SECONDS = 0.0
matrix.plan(["suite=classic", "task=CartPole-v1", "method=uer", "profile=smoke"])
os.environ["HF_HUB_OFFLINE"] = "1"
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
for name in (
    "torch._dynamo", "torch.distributed.tensor", "torchvision.transforms",  # before OSMesa: suites/mujoco/gl.py
    "scipy.optimize", "scipy.stats", "matplotlib.pyplot", "openai", "altair", "accelerate", "jinja2",
    "transformers.models.auto.processing_auto", "transformers.models.auto.video_processing_auto",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl", "transformers.models.qwen2_5_vl.processing_qwen2_5_vl",
    "transformers.models.qwen2_vl.image_processing_qwen2_vl", "transformers.models.qwen2_vl.video_processing_qwen2_vl",
    "transformers.models.clip.modeling_clip", "transformers.models.clip.processing_clip",
    "transformers.models.clip.image_processing_clip",
    "gymnasium.envs.mujoco", "gymnasium_robotics", "metaworld", "crafter", "minigrid", "ogbench.manipspace",
):  # fmt: skip
    with contextlib.suppress(ImportError):  # its extra is not installed
        importlib.import_module(name)
for package in (baselines, methods, suites, backends):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        with contextlib.suppress(ImportError):  # its extra is not installed
            importlib.import_module(module.name)
for kind in registry.KINDS:
    for name in registry.registered(kind):  # without the plug-ins of the test that asks for the first process
        part = registry.get(kind, name)
        settings.fields(
            part if isinstance(part, type) else type(part)
        )  # plans read the fields' docstrings from the source
with contextlib.suppress(ImportError):
    from guidebench.suites.bin_sorting import dynamics

    dynamics.model()  # compiled once for all forked processes
tree = MaxSumTree(1, 2)
tree.set(np.zeros((1, 1), np.int64), np.ones((1, 1)))
tree.sample(np.zeros((1, 1)))
for fault in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGQUIT):
    signal.signal(fault, signal.SIG_DFL)  # pygame's handlers would change the signal that ends a crash
