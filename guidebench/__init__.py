"""Benchmark and evaluation harness for reinforcement learning guided by foundation models.

    import guidebench as gb

    study = gb.run("suite=minigrid_doorkey", method=["uer", "per"], seeds=3, profile="quick")   # train, or go on
    rows = gb.load(study.directory)              # a DataFrame, one row per evaluation episode
    env = gb.make("minigrid_doorkey/8x8")        # a task as a Gymnasium environment
    gb.Recorder(…)                               # records runs of a training script of your own

This is the public interface. The subpackages `harness`, `suites`, `baselines`, `methods`, `results` and `reports` are
at the top of the source tree, and this folder links to them. Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guidebench.harness.gym.environments import make
    from guidebench.harness.gym.recorder import Recorder
    from guidebench.harness.run.study import run
    from guidebench.harness.scores import Score
    from guidebench.results import load

__all__ = ["Recorder", "Score", "load", "make", "run"]

_HOMES = {
    "Recorder": "harness.gym.recorder",
    "Score": "harness.scores",
    "load": "results",
    "make": "harness.gym.environments",
    "run": "harness.run.study",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"guidebench.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'guidebench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
