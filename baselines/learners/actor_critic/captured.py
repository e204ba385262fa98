"""An update as a CUDA graph: its kernels launched at once, where one by one their launches take longer than they do.

It is used on a GPU alone, and only for what it can hold: an update draws its random numbers before it and reads no
tensor's value on the way.
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
"""Updates of a kind that are taken as they are before the next is captured: libraries set themselves up in them."""


class Kind(NamedTuple):
    """What decides which kernels an update launches, besides the shapes, which do not change."""

    part: int
    """Of which part of the seeds; on a GPU there is one."""
    acts: bool
    """Whether it is also the actor's."""
    renews: tuple[bool, ...]
    """Which seeds' target networks it moves."""
    reducible: Difference | None
    """Which reducible errors the replay wants, if any."""
    weighted: bool
    """Whether its batches have importance weights."""
    active: tuple[bool, ...]
    """Which seeds it moves."""


class UpdateStatistics(NamedTuple):
    """What an update tells: the names of `numbers`' first columns, and float [seeds, names, then errors]."""

    names: tuple[str, ...]
    numbers: Tensor


Learn = Callable[["Sample", Kind], UpdateStatistics]


class _Graph(NamedTuple):
    """A captured update: the memory that it reads and writes."""

    graph: Any
    sample: Sample
    told: UpdateStatistics


class Captured:
    """`learn`, from the fourth update of each kind on as a graph; as it is, with a warning, where that fails.

    `told.numbers` is overwritten by the next update of its kind.
    """

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._taken: Counter[Kind] = Counter()
        self.graphs: dict[Kind, _Graph] = {}
        self.refused = ""
        """Why updates are no longer captured."""

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
        """Notes the update's kernels and runs none of them, so that nothing is learnt twice."""
        own = type(sample)._make(None if given is None else cloned(given) for given in sample)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            told = self._learn(own, kind)
        return _Graph(graph, own, told)

    def _replay(self, captured: _Graph, sample: Sample) -> UpdateStatistics:
        for own, given in zip(captured.sample, sample, strict=True):
            if own is not None:
                assert given is not None, "samples of a kind have the same parts"
                overwrite(own, given)
        captured.graph.replay()
        return captured.told
