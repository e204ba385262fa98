"""Where the time of a training step goes, by timers at the boundaries between the engine and its parts.

The timers are put onto the objects of one training loop (`Profiler.attach`); a loop without them runs the code as it
is. Each timer counts its own time without that of the timers within it, so the parts and `other` add up to the step.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from guidebench.baselines.parameters import Adam
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import RunPhase
from guidebench.harness.loop import training
from guidebench.harness.loop.training import Loop

PARTS = (
    "environment", "acting", "storage", "sampling", "gather", "forward", "backward", "optimiser", "guide", "asking",
    "log",
)  # fmt: skip
"""Parts of a step, in the order of a table; what no timer covers is `other`."""
PERIODIC = ("evaluation", "checkpoint")
"""What happens at intervals; its time is spread over the steps between."""
CLOSED: Mapping[str, Sequence[str]] = {"log": PERIODIC, "guide": ["asking"], "evaluation": [], "checkpoint": []}
"""Part that is not split further -> what is counted apart within it all the same. So a guide that trains a network of
its own has that time to itself."""
WARM = 20
"""Steps after the first gradient step that are not timed, since they compile and allocate."""
LEAST = 50
"""Fewest timed steps of a profile."""
STEPS = 2_000
"""Timed steps by default."""
COUNTED = 8
"""Steps whose floating-point operations are counted."""
GUIDE = (
    "observed_dataset", "begun", "observed", "ended", "answered", "before_update", "shape", "unguided", "losses",
    "metrics", "reward",
)  # fmt: skip
"""Methods of a guide that the engine calls."""
JOURNAL = ("evaluated", "measured", "judged", "noted", "timed", "diverged", "progress", "consulting")
TASK = ("snapshot", "text", "caption", "measures", "events")


class Seconds(NamedTuple):
    """Time of this process."""

    wall: float
    processor: float


class Product(NamedTuple):
    """A matrix product [rows, inner] x [inner, columns], `batch` times; a convolution is counted as one."""

    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.rows * self.inner * self.columns


class Profile(NamedTuple):
    """Mean times of a training step of all seeds of a worker."""

    steps: int
    """Timed steps."""
    updates: int
    """Gradient steps of the learners in them."""
    step: Seconds
    """A step, without evaluations and checkpoints."""
    parts: dict[str, Seconds]
    """Part -> its time in a step; `other` is the rest."""
    periodic: dict[str, tuple[Seconds, int]]
    """Evaluation and checkpoint: the time of one, and the steps between two."""
    products: list[Product]
    """Matrix products of the counted steps."""
    counted: int
    """Steps whose products were counted."""

    @property
    def flops(self) -> float:
        """Floating-point operations of the matrix products of a step."""
        return sum(product.flops for product in self.products) / max(1, self.counted)


class Stopwatch:
    """Exclusive times of nested sections."""

    def __init__(self) -> None:
        self.is_running = False
        self._totals: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.counts: Counter[str] = Counter()
        self._open: list[str] = []
        self._mark = Seconds(0.0, 0.0)

    def start(self) -> None:
        """Begin to count; sections that are open already are not counted."""
        self.is_running, self._mark = True, now()

    def stop(self) -> None:
        self._charge()
        self.is_running = False

    def seconds(self, part: str) -> Seconds:
        """Return the time counted for a part, without that of sections within it."""
        return Seconds(self._totals[part, "wall"], self._totals[part, "processor"])

    @contextlib.contextmanager
    def section(self, part: str) -> Iterator[None]:
        """Count the time of the block for a part, unless it lies within a closed one."""
        if not self.is_running or (self._open and part not in CLOSED.get(self._open[-1], [part])):
            yield
            return
        self._charge()
        self.counts[part] += 1
        self._open.append(part)
        try:
            yield
        finally:
            if self.is_running:
                self._charge()
            self._open.pop()

    def timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """Return the function with its time counted for a part."""

        def call(*args: Any, **settings: Any) -> Any:
            with self.section(part):
                return function(*args, **settings)

        return call

    def _charge(self) -> None:
        """Count the time since the last mark for the innermost open section."""
        mark = now()
        part = self._open[-1] if self._open else "other"
        self._totals[part, "wall"] += mark.wall - self._mark.wall
        self._totals[part, "processor"] += mark.processor - self._mark.processor
        self._mark = mark


def now() -> Seconds:
    return Seconds(time.perf_counter(), time.process_time())


class Profiler:
    """Profiles one worker's training: attach it to the loop, and let the loop run until `is_done`."""

    def __init__(
        self,
        learning_starts: int,
        steps: int | None,
        seconds: float,
        tell: Callable[[int, int], None] = lambda step, end: None,
    ) -> None:
        """`learning_starts`: the step at which the learners' own schedules begin; `steps`: steps to run in all, None
        for `STEPS` after the first gradient step; `seconds`: time after which the profile ends, with at least `LEAST`
        timed steps; `tell` is called with the step and the number of steps."""
        self._learning_starts, self._steps = learning_starts, steps
        self._begin = self._end = 0
        self._until, self._tell = time.monotonic() + seconds, tell
        self._watch = Stopwatch()
        self._products: list[Product] = []
        self._timed = self._counted = self._gradient_steps = 0
        self._intervals: dict[str, int] = {}
        self.is_done = False

    def attach(self, loop: Loop) -> Callable[[], None]:
        """Put timers onto a loop and its parts; return the function that takes those off again that lie in modules.
        Raise UserError if the steps hold too few gradient steps, or are more than the run has."""
        watch, agent = self._watch, loop.agent
        self._choose_steps(agent.phases())
        self._intervals = {"evaluation": loop._evaluate_every, "checkpoint": loop._checkpoint_every}
        closing = contextlib.ExitStack()

        def put(owner: Any, names: Sequence[str], part: str) -> None:
            for name in names:
                if callable(function := getattr(owner, name, None)):
                    setattr(owner, name, watch.timed(function, part))

        def put_on_module(owner: Any, name: str, part: str) -> None:
            function = getattr(owner, name)
            setattr(owner, name, watch.timed(function, part))
            closing.callback(setattr, owner, name, function)

        import torch

        put_on_module(training, "at_once", "environment")
        put_on_module(torch.autograd, "grad", "backward")
        put_on_module(torch.Tensor, "backward", "backward")
        put_on_module(Adam, "step", "optimiser")
        for task in loop.tasks:
            put(task, TASK, "environment")
        put(agent, ["act"], "acting")
        put(agent, ["observe"], "storage")
        for learner in getattr(agent, "learners", {}).values():
            self._count_updates(learner)
            put(learner, ["update"], "forward")
        for experience in getattr(agent, "experiences", {}).values():
            for stream in getattr(experience, "by_seed", [experience]):
                put(stream, ["add"], "storage")
                put(stream, ["sample", "feedback"], "sampling")
                put(stream, ["metrics", "spread"], "log")
                put(stream.sampler, ["draw", "feedback", "scored", "added"], "sampling")
                put(stream.store, ["gather"], "gather")
        if hasattr(agent, "guide"):
            put(agent.guide, GUIDE, "guide")
        put(loop, ["ask", "consult"], "asking")
        for queue in (*loop._asks.values(), *loop._consulted.values()):
            put(queue, ["due"], "asking")
        put(loop, ["_evaluate"], "evaluation")
        put(loop._journal, ["checkpoint"], "checkpoint")
        put(loop._journal, JOURNAL, "log")
        put(loop, ["_take_in", "_housekeep"], "log")
        self._follow(loop)
        return closing.close

    def _choose_steps(self, phases: Sequence[RunPhase]) -> None:
        """Choose the steps that are timed."""
        first = training.learning_begins(phases, self._learning_starts)
        least, most = first + WARM + LEAST, sum(phase.steps for phase in phases) - COUNTED - 1
        steps = min(most, first + WARM + STEPS) if self._steps is None else self._steps
        if not least <= steps <= most:
            raise UserError(
                f"--steps {steps:,}: a run of this cell has {most + COUNTED + 1:,} steps, its first gradient step is "
                f"step {first:,}, and {WARM} steps of warm-up and {LEAST} timed ones follow; give {least:,} to {most:,}"
            )
        self._begin, self._end = first + WARM, steps

    def _count_updates(self, learner: Any) -> None:
        update = learner.update

        def counted(*args: Any, **settings: Any) -> Any:
            self._gradient_steps += self._watch.is_running
            return update(*args, **settings)

        learner.update = counted

    def _follow(self, loop: Loop) -> None:
        """Start and stop the stopwatch between steps, and count operations after it has stopped."""
        advance = loop.advance

        def step(phase: Any) -> None:
            if loop.step == self._begin:
                self._watch.start()
            is_over = loop.step >= self._end or (self._timed >= LEAST and time.monotonic() > self._until)
            if self._watch.is_running and is_over:
                self._watch.stop()
                self._evaluate_once(loop)
            if not self._watch.is_running and self._timed:
                with collected(self._products):
                    advance(phase)
                self._counted += 1
                self.is_done = self._counted >= COUNTED
                return
            advance(phase)
            self._timed += self._watch.is_running
            self._tell(loop.step, self._end)

        loop.advance = step  # type: ignore[method-assign]

    def _evaluate_once(self, loop: Loop) -> None:
        """Time an evaluation and a checkpoint, if none fell into the timed steps."""
        if not self._watch.counts["evaluation"]:
            self._watch.start()
            loop._evaluate(loop.rows.tolist())
            self._watch.stop()
        if not self._watch.counts["checkpoint"]:
            self._watch.start()
            loop._journal.checkpoint(loop.step, loop.state)
            self._watch.stop()

    @property
    def profile(self) -> Profile:
        """The profile, once `is_done`."""
        watch, steps = self._watch, self._timed
        parts = {part: _per(watch.seconds(part), steps) for part in (*PARTS, "other")}
        periodic = {
            part: (_per(watch.seconds(part), watch.counts[part]), self._intervals[part])
            for part in PERIODIC
            if watch.counts[part]
        }
        total = Seconds(*(sum(column) for column in zip(*parts.values(), strict=True)))
        return Profile(steps, self._gradient_steps, total, parts, periodic, self._products, self._counted)


def _per(seconds: Seconds, count: int) -> Seconds:
    return Seconds(seconds.wall / count, seconds.processor / count)


@contextlib.contextmanager
def collected(products: list[Product]) -> Iterator[None]:
    """Append the matrix products that PyTorch computes within the block."""
    from torch.utils import _python_dispatch

    base: Any = _python_dispatch.TorchDispatchMode

    class Collector(base):  # type: ignore[misc]
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), settings: Any = None) -> Any:
            outputs = operation(*args, **(settings or {}))
            products.extend(_products(operation, args, outputs))
            return outputs

    with Collector():
        yield


def _products(operation: Any, args: Sequence[Any], outputs: Any) -> Iterator[Product]:
    """Yield the matrix products of an operation of ATen."""
    match operation.overloadpacket.__name__:
        case "mm":
            yield _product(args[0], args[1])
        case "bmm":
            yield _product(args[0], args[1])
        case "addmm" | "baddbmm" | "addbmm":
            yield _product(args[1], args[2])
        case "mv":
            yield Product(1, args[0].shape[0], args[0].shape[1], 1)
        case "convolution":
            yield _convolution(args[0].shape, args[1].shape, outputs.shape)
        case "convolution_backward":
            product = _convolution(args[1].shape, args[2].shape, args[0].shape)
            for _ in range(sum(args[10][:2])):  # gradients with respect to the inputs and to the weights
                yield product


def _product(first: Any, second: Any) -> Product:
    *batch, rows, inner = first.shape
    return Product(int(np.prod(batch)), rows, inner, second.shape[-1])


def _convolution(inputs: Any, weight: Any, outputs: Any) -> Product:
    """Return a convolution as the product of patches and kernels, a group at a time."""
    groups = max(1, inputs[1] // weight[1])
    places = int(np.prod([outputs[0], *outputs[2:]]))
    return Product(groups, places, int(np.prod(weight[1:])), weight[0] // groups)


def product_rate(product: Product, seconds: float = 0.5) -> float:
    """Return the floating-point operations per second of a matrix product, measured with the present number of threads:
    the fastest of the turns that `seconds` hold."""
    import torch

    first = torch.randn(product.batch, product.rows, product.inner)
    second = torch.randn(product.batch, product.inner, product.columns)
    until, fastest = time.perf_counter() + seconds, np.inf
    repeats = max(1, int(1e8 / product.flops))
    while time.perf_counter() < until:
        started = time.perf_counter()
        for _ in range(repeats):
            torch.bmm(first, second) if product.batch > 1 else torch.mm(first[0], second[0])
        fastest = min(fastest, (time.perf_counter() - started) / repeats)
    return product.flops / fastest
