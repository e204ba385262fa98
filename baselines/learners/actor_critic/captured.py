"""An update as a CUDA graph: its kernels are launched at once, because launching them one by one takes longer than
running them.

It is used on a GPU only, and requires that an update draws its random numbers beforehand and reads no tensor's value on
the CPU.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from guidebench.baselines.tensors import cloned, overwrite
from guidebench.harness.errors import Notice
from guidebench.harness.interfaces import Difference

if TYPE_CHECKING:
    from guidebench.baselines.learners.actor_critic.sample import Sample

WARM_UP = 3
"""Updates of each kind that run uncaptured first; libraries initialise during these."""


class Kind(NamedTuple):
    """Key of a captured CUDA graph: all that determines which kernels an update launches, except shapes, which are
    constant."""

    block: int
    """Index of the block of seeds; on a GPU there is one block."""
    acts: bool
    """Whether the update includes the actor."""
    renews: tuple[bool, ...]
    """Seeds whose target networks are updated."""
    reducible: Difference | None
    """Kind of reducible loss that the replay requests, if any."""
    weighted: bool
    """Whether its batches have importance weights."""
    active: tuple[bool, ...]
    """Seeds whose networks are updated."""


class UpdateStatistics(NamedTuple):
    """Statistics of an update: names of the first columns of `numbers`, float [seeds, names, then TD errors]."""

    names: tuple[str, ...]
    numbers: Tensor


Learn = Callable[["Sample", Kind], UpdateStatistics]


class _Graph(NamedTuple):
    """A captured update and the memory that it reads and writes."""

    graph: Any
    sample: Sample
    told: UpdateStatistics


class Captured:
    """Runs `learn` as a CUDA graph from the fourth update of each kind; if capturing fails, warns and runs it
    uncaptured.

    `told.numbers` is overwritten by the next update of the same kind.
    """

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._taken: Counter[Kind] = Counter()
        self.graphs: dict[Kind, _Graph] = {}
        self.refused = ""
        """Reason why updates are no longer captured, or ""."""

    def __call__(self, sample: Sample, kind: Kind) -> UpdateStatistics:
        if kind in self.graphs:
            return self._replay(self.graphs[kind], sample)
        if self.refused:
            return self._learn(sample, kind)
        self._taken[kind] += 1
        if self._taken[kind] <= WARM_UP:
            return self._learn(sample, kind)
        try:
            self.graphs[kind] = self._capture(sample, kind)
        except (RuntimeError, AssertionError) as error:  # torch's own, and of a torch without CUDA
            self.refused = str(error).splitlines()[0] if str(error) else type(error).__name__
            message = f"updates cannot be captured as a CUDA graph ({self.refused}); they go on one kernel at a time"
            warnings.warn(Notice(message), stacklevel=2)
            return self._learn(sample, kind)
        return self._replay(self.graphs[kind], sample)

    def _capture(self, sample: Sample, kind: Kind) -> _Graph:
        """Record the update's kernels without running them, so that no update is applied twice."""
        own = type(sample)._make(None if given is None else cloned(given) for given in sample)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            told = self._learn(own, kind)
        return _Graph(graph, own, told)

    def _replay(self, captured: _Graph, sample: Sample) -> UpdateStatistics:
        for own, given in zip(captured.sample, sample, strict=True):
            if own is not None:
                assert given is not None, "samples of a kind have the same blocks"
                overwrite(own, given)
        captured.graph.replay()
        return captured.told
