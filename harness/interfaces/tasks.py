"""Interfaces of suites and their tasks, and the records in which they describe themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from guidebench.harness.types import Array, State

if TYPE_CHECKING:
    from guidebench.harness.interfaces.spaces import Actions, Observations


class Step(NamedTuple):
    """The result of one environment step."""

    observation: Array
    reward: float
    terminated: bool
    truncated: bool
    success: bool


class Task(Protocol):
    """One environment. `state()` holds everything that decides its future, its random stream included. The methods that
    read it (`events`, `snapshot`, `position`, and of the capabilities `measures`, `text`, `caption`) change nothing and
    may be called at any time after the first reset, since a task in another process is read ahead."""

    instruction: str
    max_steps: int

    def reset(self, seed: int | None = None) -> Array:
        """Begin an episode and return its first observation; `seed` reseeds the task's random stream, None continues
        it."""

    def step(self, action: Any) -> Step: ...

    def events(self) -> Array:
        """Return which of the suite's `events` occurred in the last step, bool [E]. Privileged: for oracles and
        diagnostics, never for a method. The task may reuse the array, so callers must copy it to keep it."""

    def snapshot(self) -> Array:
        """Return what is needed to draw the current frame, uint8 [n] with constant n."""

    def position(self) -> bytes | None:
        """Return all state that decides the future except the clock and the random stream, or None unless success is
        the only reward and the dynamics are deterministic. Evaluation ends an episode as a failure when its position
        repeats under a deterministic policy."""

    def state(self) -> State: ...

    def load_state(self, state: State) -> None: ...


class Drawer(Protocol):
    """Draws frames from snapshots, in the frame worker's process."""

    def __call__(self, snapshots: Array) -> Array:
        """Draw the frames, uint8 [L, height, width, 3], of snapshots, uint8 [L, n]."""


class Suite(Protocol):
    """A registered suite: a frozen dataclass whose fields are its settings (variants) and which inherits
    `harness.parts.SuitePart`. Optional capabilities of suites are in `harness.capabilities`.

    `defaults` and `profiles` are layers of settings: keys are `section.field` or `kind.name.field`, values may
    be `cite(value, source)`.
    """

    version: ClassVar[int]
    title: ClassVar[str]
    source: ClassVar[str]
    citation: ClassVar[str | Path]
    """The `.bib` file whose BibTeX entries a user of it should cite, BibTeX itself, or a comment (%) that says why
    there are none."""
    tasks: ClassVar[tuple[str, ...]]
    learner: ClassVar[str]
    """Learner used if neither the command nor the method names one."""
    method: ClassVar[str]
    """Method used if the command names none."""
    events: ClassVar[tuple[str, ...]]
    """Events on the way to success, in their usual order. The task phase of an episode is the first event that has not
    occurred in it yet. A suite without such an order sets `ordered` = False; its episodes have no task phases."""
    drawing: ClassVar[type]
    """Configuration class of the section `drawing`, in cells whose judge sees frames: a frozen dataclass that inherits
    `harness.parts.DrawingPart`, with `spawn(task) -> Drawer` and, if frames can be perturbed, a field `perturbation`
    whose Literal type lists the perturbations."""
    defaults: ClassVar[Mapping[str, Any]]
    """Layer of settings for all profiles."""
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Profile -> layer of settings. It may also hold `tasks`, the tasks used if the command names none, and `by_task`,
    task -> layer."""

    def spaces(self, task: str) -> tuple[Observations, Actions]: ...

    def horizon(self, task: str) -> int:
        """Return the maximum length of an episode in steps."""

    def seconds_per_step(self, task: str) -> float:
        """Return the seconds of one environment step on the reference machine, for `--dry-run`."""

    def make(self, task: str) -> Task: ...

    def of_run(self, seed: int) -> Suite:
        """Return the suite as the run of this seed uses it. Most suites return themselves; a suite whose seed decides
        more than random streams, such as one layout for all episodes, returns a variant."""

    def in_evaluation(self) -> Suite:
        """Return the suite as evaluation episodes use it; spaces and events are those of training."""

    def repeats(self, task: str) -> bool:
        """Return whether all episodes of a run start in the same state and the dynamics are deterministic."""

    @property
    def apart(self) -> bool:
        """Return whether its tasks run their environments in processes of their own (`SuitePart.apart`)."""


class Surroundings(NamedTuple):
    """Description, for a prompt, of surroundings that an observation's coordinates do not cover, such as walls."""

    description: str
    """Description in whole sentences."""
    demand: str
    """Constraint that the surroundings put on a trajectory, as one sentence."""


class Coordinates(NamedTuple):
    """An object of the task whose position an observation holds."""

    name: str
    """Name, such as `tcp`, `obj` or `target`."""
    meaning: str
    """Description for a prompt."""
    entries: tuple[int, ...]
    """Indices into the observation vector, in order x, y, z."""
    former: tuple[int, ...] = ()
    """Indices of the same position one step earlier."""
    constant: bool = False
    """Whether the position is constant within an episode."""
    reach: tuple[tuple[float, float], ...] = ()
    """Minimum and maximum of each entry in the task, in the entry's unit; empty means unbounded."""


class StepWords(NamedTuple):
    """What the tasks say of one step of every seed, in words."""

    before: tuple[str, ...]
    """Each task's `text()` in the state before the step (`harness.capabilities.HasText`)."""
    captions: tuple[str, ...]
    """Each task's `caption()` of the step (`harness.capabilities.HasCaptions`)."""
