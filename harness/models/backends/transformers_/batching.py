"""Batching: items that wait are computed together in one thread, in batches of one size.

A sum is rounded differently in arrays of another shape. So a batch that is not full is filled up with its last item:
every batch of a kind then has the same shape, and an item's result is the same bits whatever else waits, also where it
is computed again after a kill. This holds while the size stays the same; where memory runs out, it is halved, and
stderr says so.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch

from guidebench.harness.errors import full
from guidebench.harness.models.calls import Failure

Compute = Callable[[Sequence[Any]], Sequence[Any]]
"""Items of one kind -> a result or a Failure for each."""
ON_CPU = 4
"""Batch size on a CPU, where larger batches were slower; memory is not measured (choice: benchmarks.judging)."""
ON_GPU = 8
"""Largest batch size that is chosen on a GPU. A single item that waits takes as long as a full batch, and clips of a
few hundred tokens use a GPU well in batches of this size (choice)."""
SHARE = 0.8
"""Share of a GPU's free memory that a batch may fill; the rest is a margin for allocators and libraries."""


class Done(NamedTuple):
    """A result, and its batch's seconds divided by the batch size."""

    value: Any
    seconds: float


class _QueuedItem(NamedTuple):
    kind: Hashable
    compute: Compute
    item: Any
    filled: bool
    answer: asyncio.Future[Done]


class Batcher:
    """Computes items in batches, each of items of one kind."""

    def __init__(self, size: int | None, device: torch.device) -> None:
        """`size`: batch size; None is ON_CPU, or on a GPU the largest power of two up to ON_GPU that fits into its
        memory, for each kind."""
        self._size, self._device = size, device
        self._sizes: dict[Hashable, int] = {}
        self._waiting: list[_QueuedItem] = []
        self._thread = ThreadPoolExecutor(1, "model")
        self._task: asyncio.Task[None] | None = None

    async def put(self, kind: Hashable, compute: Compute, item: Any, filled: bool = True) -> Done:
        """Return the result for one item; raise Failure("memory") if it does not fit even alone. Items of one kind must
        make arrays of one shape. `filled`: whether a batch of fewer items is filled up, so that the result does not
        depend on what else waits."""
        loop = asyncio.get_running_loop()
        queued = _QueuedItem(kind, compute, item, filled, loop.create_future())
        self._waiting.append(queued)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await queued.answer

    def close(self) -> None:
        """Stop computing and cancel the items that still wait."""
        if self._task is not None:
            self._task.cancel()
        for queued in self._waiting:
            queued.answer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # let simultaneous items join the first batch
            self._waiting = [queued for queued in self._waiting if not queued.answer.done()]  # drop cancelled items
            if not self._waiting:
                return
            first = self._waiting[0]
            if first.kind not in self._sizes:
                try:
                    probe = loop.run_in_executor(self._thread, self._fitting, first.compute, first.item)
                    self._sizes[first.kind] = await probe
                except Exception as error:
                    _tell(first, error)
                    continue
            size = self._sizes[first.kind]
            batch = [queued for queued in self._waiting if queued.kind == first.kind][:size]
            batched = set(map(id, batch))
            self._waiting = [queued for queued in self._waiting if id(queued) not in batched]
            started = time.perf_counter()
            try:
                values = await loop.run_in_executor(self._thread, self._compute, batch, size)
            except torch.OutOfMemoryError as error:
                self._halve(batch, size, str(error))
                continue
            except Exception as error:
                for queued in batch:
                    _tell(queued, error)
                continue
            seconds = (time.perf_counter() - started) / len(batch)
            for queued, value in zip(batch, values, strict=True):
                if isinstance(value, Failure):
                    value.usage = value.usage._replace(seconds=seconds)
                    _tell(queued, value)
                else:
                    _tell(queued, Done(value, seconds))

    def _compute(self, batch: Sequence[_QueuedItem], size: int) -> Sequence[Any]:
        items = [queued.item for queued in batch]
        if batch[0].filled:
            items += [items[-1]] * (size - len(batch))
        try:
            with torch.inference_mode():
                return batch[0].compute(items)[: len(batch)]
        except RuntimeError as error:
            raise out_of_memory(error) or error from None

    def _halve(self, batch: Sequence[_QueuedItem], size: int, reason: str) -> None:
        """Halve the batch size of this kind; fail an item that does not fit alone."""
        self._free()
        computed = size if batch[0].filled else len(batch)
        if computed == 1:
            _tell(batch[0], Failure("memory", f"one item alone does not fit in memory: {reason}"))
        else:
            self._sizes[batch[0].kind] = computed // 2
            self._waiting[:0] = batch
            change = f"batches of {computed} do not fit into memory; from here on they have {computed // 2}, which may"
            print(f"{change} change the last digits of results", file=sys.stderr, flush=True)

    def _free(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _fitting(self, compute: Compute, item: Any) -> int:
        """Return how many items like `item` fit. On a GPU, compute one and two of them and compare their memory, after
        a warm-up in which libraries allocate their buffers."""
        if self._size is not None:
            return self._size
        if self._device.type != "cuda":
            return ON_CPU
        try:
            _, one, two = (self._peak(compute, [item] * count) for count in (1, 1, 2))
        except RuntimeError as error:
            if out_of_memory(error) is None:
                raise
            self._free()
            return 1
        self._free()
        free, _ = torch.cuda.mem_get_info(self._device)
        return fitting(one, two, free)

    def _peak(self, compute: Compute, items: Sequence[Any]) -> int:
        """Return the peak bytes of computing, beyond the memory already allocated."""
        torch.cuda.reset_peak_memory_stats(self._device)
        allocated = torch.cuda.memory_allocated(self._device)
        with torch.inference_mode():
            compute(items)
        return torch.cuda.max_memory_allocated(self._device) - allocated


def fitting(one: int, two: int, free: int) -> int:
    """Return the largest power of two of items that fits into `free` bytes if one took `one` and two took `two`; at
    least 1, at most ON_GPU. A power of two is the same after a restart, unless much less memory is free.

    >>> fitting(one=6, two=10, free=36)
    4
    """
    growth = max(1, two - one)
    constant = max(0, one - growth)
    most = int(min(ON_GPU, max(1, (SHARE * free - constant) // growth)))
    return 1 << (most.bit_length() - 1)


def _tell(queued: _QueuedItem, result: Done | BaseException) -> None:
    if queued.answer.done():  # cancelled meanwhile
        return
    if isinstance(result, BaseException):
        queued.answer.set_exception(result)
    else:
        queued.answer.set_result(result)


def out_of_memory(error: RuntimeError) -> torch.OutOfMemoryError | None:
    """Return an out-of-memory error as torch.OutOfMemoryError, else None; on a CPU and in
    libraries of CUDA it is a RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError):
        return error
    return torch.OutOfMemoryError(str(error)) if full(error) else None
