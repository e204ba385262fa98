"""An update as a CUDA graph: its kernels are launched at once, because launching them one by one takes longer than
running them.

It is used on a GPU only, and requires that an update draws its random numbers beforehand and reads no tensor's value on
the CPU.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from guidebench.baselines.tensors import cloned, overwrite
from guidebench.harness.errors import Notice

WARM_UP = 3
"""Updates of each kind that run uncaptured first; libraries initialise during these."""


class UpdateStatistics(NamedTuple):
    """Statistics of an update: one array of floats, laid out as its learner reads it, and the names of the statistics
    that stand first in it."""

    names: tuple[str, ...]
    numbers: Tensor


Learn = Callable[[Any, Any], UpdateStatistics]
"""An update: a sample, which is a named tuple of tensors, of mappings of tensors or of None, and the update's kind, a
named tuple of all that determines which kernels it launches, except the shapes of the sample."""


def on_gpu(learn: Learn, device: str) -> Learn:
    """Return an update that is captured as a CUDA graph if the device is a GPU."""
    return Captured(learn) if device.startswith("cuda") else learn


class _Graph(NamedTuple):
    """A captured update and the memory that it reads and writes."""

    graph: Any
    sample: Any
    statistics: UpdateStatistics


class Captured:
    """Runs `learn` as a CUDA graph from the fourth update of each kind and batch size; if capturing fails, warns and
    runs it uncaptured.

    `statistics.numbers` is overwritten by the next update of the same kind.
    """

    def __init__(self, learn: Learn) -> None:
        self.learn = learn
        self._taken: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, _Graph] = {}
        self.refused = ""
        """Reason why updates are no longer captured, or ""."""

    def __call__(self, sample: Any, kind: Any) -> UpdateStatistics:
        key = kind, tuple(sample.reward.shape)
        if key in self.graphs:
            return self._replay(self.graphs[key], sample)
        if self.refused:
            return self.learn(sample, kind)
        self._taken[key] += 1
        if self._taken[key] <= WARM_UP:
            return self.learn(sample, kind)
        try:
            self.graphs[key] = self._capture(sample, kind)
        except (RuntimeError, AssertionError) as error:  # torch's own, and of a torch without CUDA
            self.refused = str(error).splitlines()[0] if str(error) else type(error).__name__
            message = f"updates cannot be captured as a CUDA graph ({self.refused}); they go on one kernel at a time"
            warnings.warn(Notice(message), stacklevel=2)
            return self.learn(sample, kind)
        return self._replay(self.graphs[key], sample)

    def _capture(self, sample: Any, kind: Any) -> _Graph:
        """Record the update's kernels without running them, so that no update is applied twice."""
        own = type(sample)._make(None if given is None else cloned(given) for given in sample)
        graph, told = self._recorded(own, kind)
        return _Graph(graph, own, told)

    def _recorded(self, own: Any, kind: Any) -> tuple[Any, UpdateStatistics]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            told = self.learn(own, kind)
        return graph, told

    def _replay(self, captured: _Graph, sample: Any) -> UpdateStatistics:
        for own, given in zip(captured.sample, sample, strict=True):
            if own is not None:
                assert given is not None, "samples of a kind have the same blocks"
                overwrite(own, given)
        captured.graph.replay()
        return captured.statistics
