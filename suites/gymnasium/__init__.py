"""The suite gymnasium: any environment that Gymnasium's registry or a package of the user's has."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from guidebench.harness import consent
from guidebench.harness.errors import UserError, size
from guidebench.harness.findings import Finding
from guidebench.harness.interfaces import SUCCESS, Actions, Drawer, Observations, Score, Task
from guidebench.harness.parts import AUTO, CellView, DrawingPart, SuitePart
from guidebench.harness.registry import register
from guidebench.harness.settings import Bounds, Text, Transport, Unit, cite, cited

if TYPE_CHECKING:
    from guidebench.suites.gymnasium.task import Check

NAME = re.compile(r"([\w.]+:)?([\w-]+/)?[\w.-]+")
"""What an id of Gymnasium looks like: MODULE:NAMESPACE/NAME-vN."""
CODE = ("module", "entry", "wrappers", "python")
"""Settings that name code to run."""
SB3 = "Stable-Baselines3's default"
SB3_DQN = {
    "lr": 1e-4, "batch_size": 32, "discount": 0.99, "double": False, "learning_starts": 100, "target_every": 10_000,
    "train_every": 4, "gradient_steps": 1, "exploration_share": 0.1, "epsilon_end": 0.05, "hidden": (64, 64),
    "max_grad_norm": 10.0,
}  # fmt: skip
SB3_SHARED = {
    "batch_size": 256, "discount": 0.99, "target_rate": 0.005, "max_grad_norm": None, "ensemble": 2, "subset": 2,
    "target_reduction": "min", "actor_reduction": "min", "layer_norm": False, "utd": 1, "actor_utd": 1,
}  # fmt: skip
SB3_SAC = {
    **SB3_SHARED, "actor_lr": 3e-4, "critic_lr": 3e-4, "alpha_lr": 3e-4, "hidden": (256, 256), "policy_frequency": 1,
    "alpha": 1.0, "tune_alpha": True, "target_entropy_scale": 1.0,
}  # fmt: skip
SB3_TD3 = {
    **SB3_SHARED, "actor_lr": 1e-3, "critic_lr": 1e-3, "hidden": (400, 300), "policy_frequency": 2,
    "exploration_noise": 0.1, "target_noise": 0.2, "noise_clip": 0.5,
}  # fmt: skip
STARTS = cite(256, f"choice; {SB3} is 100, a batch must be there first")


class _Learners(Mapping[str, str]):
    """Task -> learner, of the tasks whose spaces this process has seen."""

    def __init__(self) -> None:
        self.described: dict[str, str] = {}

    def __getitem__(self, task: str) -> str:
        return self.described[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self.described)

    def __len__(self) -> int:
        return len(self.described)


@dataclass(frozen=True)
class GymnasiumDrawing(DrawingPart):
    """The environment's own frames, drawn by a copy."""

    of: Annotated[str, Transport] = AUTO
    """The settings of the suite, as JSON (follows from the suite)."""

    def spawn(self, task: str) -> Drawer:
        """Return the drawer of an environment."""
        from guidebench.suites.gymnasium.task import GymnasiumDrawer

        suite = Gymnasium(**json.loads(self.of))
        if suite.interpreter == AUTO:  # a record does not say what draws here
            suite = replace(suite, interpreter=suite.described(task)["interpreter"])
        return GymnasiumDrawer(suite, task)


class _Drawing:
    """The class of the drawing, read from the suite's class; read from a suite, what makes a drawing of that suite."""

    def __get__(self, suite: Gymnasium | None, _: type | None = None) -> Any:
        return GymnasiumDrawing if suite is None else functools.partial(GymnasiumDrawing, of=json.dumps(asdict(suite)))


@register.suite("gymnasium")
@dataclass(frozen=True)
class Gymnasium(SuitePart):
    """Any environment of Gymnasium's registry, of a package, or of a function, in a process of its own."""

    version: ClassVar[int] = 1
    title: ClassVar[str] = "Gymnasium"
    source: ClassVar[str] = "the environment's own package"
    citation: ClassVar[str | Path] = Path(__file__).with_name("gymnasium.bib")
    tasks: ClassVar[tuple[str, ...]] = ()
    learner: ClassVar[str] = "dqn"
    learners: ClassVar[_Learners] = _Learners()
    method: ClassVar[str] = "uer"
    events: ClassVar[tuple[str, ...]] = ()
    ordered: ClassVar[bool] = False
    apart: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("training.steps",)
    remarked: ClassVar[Mapping[str, Any]] = {"episodes": "not reproducible"}
    judges: ClassVar[Mapping[str, str]] = {}
    drawing: ClassVar[Any] = _Drawing()
    defaults: ClassVar[Mapping[str, Any]] = {
        "training.capacity": cite(100_000, "choice"),
        "evaluation.every": cite(10_000, "choice"),
        "evaluation.episodes": cite(10, "choice"),
        **cited("learner.dqn", SB3, **SB3_DQN),
        **cited("learner.iqn", SB3, **SB3_DQN),
        **cited("learner.dueling_dqn", SB3, **SB3_DQN),
        **cited("learner.sac", SB3, **SB3_SAC),
        **cited("learner.td3", SB3, **SB3_TD3),
        "learner.sac.learning_starts": STARTS,
        "learner.td3.learning_starts": STARTS,
    }  # fmt: skip
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}

    instruction: Annotated[str, Text] = ""
    """What the agent is to do, in a sentence, for models; "" for the name of the task (setting of the user's)."""
    success: Literal["info", "reward", "return", "terminated", "not_terminated"] | None = None
    """What makes an episode a success: an entry of info, a reward or the return above the threshold, or its end. null
    scores episodes by their return (setting of the user's)."""
    success_key: str = ""
    """Entry of info that counts as success above the threshold (setting of the user's)."""
    threshold: float | None = None
    """What the entry of info (0 if null), the reward or the return has to exceed (setting of the user's)."""
    success_when: Literal["any", "last"] = "any"
    """Whether any step of an episode may succeed, or only the last one counts (choice)."""
    options: str = "{}"
    """The environment's arguments, as JSON text (setting of the user's)."""
    module: str = ""
    """Package to import first, which registers the environment (setting of the user's)."""
    entry: str = ""
    """MODULE:CALLABLE that makes the environment, for one without an id; the task is then any name (setting of the
    user's)."""
    wrappers: tuple[str, ...] = ()
    """MODULE:CLASS of each wrapper, the innermost first (setting of the user's)."""
    keys: tuple[str, ...] = ()
    """Entries of a Dict or Tuple that are observed; vectors of numbers are joined to one (setting of the user's)."""
    range: tuple[float, ...] = ()
    """Lowest and highest score of an episode, by which scores are scaled (setting of the user's)."""
    max_steps: Annotated[int | None, Bounds(1), Unit("steps")] = None
    """Most steps of an episode; null for the limit in the registry (the environment's own)."""
    step_limit: Annotated[float, Transport, Bounds(0.1), Unit("seconds")] = 60.0
    """Longest time of a step or a frame; a process that takes longer is killed (choice)."""
    reset_limit: Annotated[float, Transport, Bounds(0.1), Unit("seconds")] = 300.0
    """Longest time of a reset, and of making the environment (choice)."""
    frame_budget: Annotated[float, Transport, Bounds(0), Unit("bytes")] = 2e9
    """Most bytes of all stored snapshots, if a part of the method asks for frames (choice)."""
    python: Annotated[str, Transport] = ""
    """Interpreter that runs the environment, which needs NumPy and Gymnasium; "" for this one (setting of the
    user's)."""
    environment: str = AUTO
    """Spaces, limit and packages of the environment, as JSON (follows from the environment)."""
    interpreter: Annotated[str, Transport] = AUTO
    """Versions of Python, NumPy and Gymnasium, and the shape of a frame, as JSON (follows from the interpreter)."""
    episodes: Literal["auto", "reproducible", "not reproducible"] = "auto"
    """Whether episodes can be played again from their seed and actions. (follows from playing some twice)."""

    def __post_init__(self) -> None:
        try:
            options = json.loads(self.options)
        except ValueError as error:
            raise UserError(f"suite.options={self.options}: no JSON ({error}); write '{{\"KEY\": VALUE}}'") from None
        if not isinstance(options, dict):
            raise UserError(f"suite.options={self.options}: expected a JSON object, such as '{{\"KEY\": VALUE}}'")
        object.__setattr__(self, "options", json.dumps(options, sort_keys=True))
        if (self.success == "info") != bool(self.success_key):
            raise UserError(
                f"suite.success={self.success or 'null'} with suite.success_key={self.success_key or '…'}: "
                f"suite.success=info takes suite.success_key=KEY, and only it does"
            )
        if self.success in ("reward", "return") and self.threshold is None:
            raise UserError(f"suite.success={self.success} needs suite.threshold=X, which it has to exceed")
        if self.threshold is not None and self.success not in ("info", "reward", "return"):
            raise UserError(f"suite.threshold={self.threshold:g} needs suite.success=info, reward or return")
        if self.range and (len(self.range) != 2 or not self.range[0] < self.range[1]):
            raise UserError(f"suite.range={list(self.range)}: expected [low,high] with low < high")
        for name in (*((self.entry,) if self.entry else ()), *self.wrappers):
            if not re.fullmatch(r"[\w.]+:[\w.]+", name):
                raise UserError(f"suite.{'entry' if name == self.entry else 'wrappers'}={name}: expected MODULE:NAME")

    @classmethod
    def task_known(cls, name: str, words: Mapping[str, Any] | None = None) -> bool:
        """Return whether a name may be an environment's. With the suite's settings that a command has, describe it;
        UserError if it does not exist, or cannot be a task."""
        if not NAME.fullmatch(name):
            return False
        if words is not None:
            suite = cls(**words)
            replace(suite, environment=suite.described(name)["environment"]).spaces(name)
        return True

    @property
    def description(self) -> Mapping[str, Any]:
        """Return the spaces, limit and packages of the environment. Raise UserError if it was not described."""
        if self.environment == AUTO:
            raise UserError("the environment is not described yet; plan it by a command such as bench run")
        return _parsed(self.environment)

    @property
    def frame(self) -> list[int] | None:
        """Return the shape of a frame, [height, width, 3]; None if the environment draws none."""
        frame: list[int] | None = None if self.interpreter == AUTO else _parsed(self.interpreter)["frame"]
        return frame

    @property
    def reproduces(self) -> bool:
        return self.episodes != "not reproducible"

    @property
    def executable(self) -> str:
        """Return the interpreter that this command names, else that of the setting."""
        return (consent.typed("suite.python") or [self.python])[-1]

    def recipe(self, task: str) -> dict[str, Any]:
        """Return how the environment is made, as JSON values. Raise UserError for code that the command does not
        name."""
        for name in CODE:
            codes = self.executable if name == "python" else getattr(self, name)
            for code in filter(None, (codes,) if isinstance(codes, str) else codes):
                consent.require(f"suite.{name}", code)
        if ":" in task and not self.entry:
            consent.require("task", task)
        names = ("options", "module", "entry", "max_steps", "success_key")
        return {
            "task": task, **{name: getattr(self, name) for name in names},
            "wrappers": list(self.wrappers), "keys": list(self.keys),
        }  # fmt: skip

    def described(self, task: str) -> Mapping[str, Any]:
        """Return the settings that follow from the environment, except `episodes`. Raise UserError if it cannot be made
        or cannot be a task."""
        self.recipe(task)  # which also asks for consent where the answer is remembered
        return _described(replace(self, environment=AUTO, interpreter=AUTO, episodes="auto"), task)

    def settle(self, task: str) -> Mapping[str, Any]:
        """Return the settings that follow from the environment; none if they are set, as those of a record are."""
        if self.environment != AUTO:
            return {}
        settings = {**self.described(task), "options": self.options}
        episodes = self.episodes
        if episodes == "auto":
            episodes = "reproducible" if self.checked(task).reproduces else "not reproducible"
        suite = replace(self, **settings, episodes=episodes)
        return {
            **{f"suite.{name}": text for name, text in {**settings, "episodes": episodes}.items()},
            "drawing.of": json.dumps(asdict(suite)),
        }

    def checked(self, task: str) -> Check:
        """Return whether episodes can be played again, and how long a step takes."""
        return _checked(replace(self, **self.described(task), episodes="auto"), task)

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        """Return the spaces, observations as arrays and vectors of several entries joined."""
        parts = {name: _observations(**spec) for name, spec in self.description["observations"].items()}
        if all(len(part.shape) == 1 and part.dtype == "float32" for part in parts.values()):
            observations = Observations((sum(part.shape[0] for part in parts.values()),), "float32")
        else:
            observations = next(iter(parts.values())) if len(parts) == 1 else Observations(parts=parts)
        described = self.description["actions"]
        actions = Actions(described.get("count"), tuple(described.get("shape", ())))
        self.learners.described[task] = "dqn" if actions.discrete else "sac"
        return observations, actions

    def horizon(self, task: str) -> int:
        return int(self.description["max_steps"])

    def seconds_per_step(self, task: str) -> float:
        """Return a guess; estimates rest on steps that were timed."""
        return 1e-3

    def score(self, task: str) -> Score:
        """Return the score: success if the command says what that is, else the return."""
        return SUCCESS if self.success else Score("return", "higher", *self.range)

    def succeeds(self, answer: Mapping[str, Any], total: float, terminated: bool, truncated: bool) -> bool:
        """Return whether a step succeeds; `total`: the return so far."""
        if self.success == "terminated":
            return terminated
        if self.success == "not_terminated":
            return truncated
        numbers = {"info": answer.get("info", 0.0), "reward": answer["reward"], "return": total}
        return self.success is not None and numbers[self.success] > (self.threshold or 0.0)

    @property
    def snapshot_bytes(self) -> int:
        """Return the bytes of a snapshot."""
        if not self.reproduces:
            return math.prod(self.frame or (0,))
        actions = self.description["actions"]
        width = 4 * math.prod(actions["shape"]) if "shape" in actions else 1 if actions["count"] <= 256 else 4
        return 16 + width * int(self.description["max_steps"])

    @property
    def longest_reply(self) -> int:
        """Return the most bytes of arrays that one reply can hold."""
        observations = self.spaces("")[0]
        return max(math.prod(self.frame or (0,)), observations.numpy.itemsize * math.prod(observations.shape))

    def fits(self, view: CellView) -> str:
        """Return why a cell cannot have frames, if a part asks for them."""
        if view["drawing"] is None:
            return ""
        if self.frame is None:
            frameless = _parsed(self.interpreter)["frameless"]
            return f"a part asks for frames, and {view.task} draws none ({frameless}); choose a method without frames"
        needed = self.snapshot_bytes * view["training"].capacity
        if needed <= self.frame_budget:
            return ""
        return (
            f"a part asks for frames, and training.capacity={view['training'].capacity:,} snapshots of "
            f"{self.snapshot_bytes:,} bytes take {size(needed)}, more than suite.frame_budget={self.frame_budget:g}; "
            f"lower training.capacity or suite.max_steps, or raise suite.frame_budget"
        )

    def make(self, task: str) -> Task:
        """Return the task; its process starts at the first reset."""
        from guidebench.suites.gymnasium.task import GymnasiumTask

        return GymnasiumTask(self, task)

    @classmethod
    def findings(cls) -> Sequence[Finding]:
        return ()

    def examined(self, task: str) -> Sequence[Finding]:
        """Return what `bench doctor` says of an environment: spaces, frame, speed, determinism."""
        description, interpreter = (_parsed(text) for text in self.described(task).values())
        check = self.checked(task)
        parts = "; ".join(f"{name or 'array'} {spec}" for name, spec in description["observations"].items())
        frame, packages = interpreter["frame"], description["packages"].items()
        verdict = "reproducible" if check.reproduces else "not reproducible: a resumed run begins a new episode"
        return (
            Finding("observations", True, parts),
            Finding("actions", True, str(description["actions"])),
            Finding("episode", True, f"at most {description['max_steps']} steps"),
            Finding("frame", True if frame else None, f"{frame}" if frame else interpreter["frameless"]),
            Finding("speed", True, f"{1 / check.seconds:,.0f} steps a second"),
            Finding("determinism", True if check.reproduces else None, verdict),
            Finding("packages", True, ", ".join(map(" ".join, packages))),
        )  # fmt: skip


def _observations(shape: Sequence[int], dtype: str, categories: Sequence[int] | None = None) -> Observations:
    return Observations(tuple(shape), dtype, None if categories is None else tuple(categories))


@functools.lru_cache(256)
def _parsed(environment: str) -> Mapping[str, Any]:
    """Return what a setting holds that follows from an environment. Raise UserError for a record that holds anything
    else."""
    try:
        description: Mapping[str, Any] = json.loads(environment)
        if "observations" in description:
            _ = {name: _observations(**spec) for name, spec in description["observations"].items()}
            Actions(description["actions"].get("count"), tuple(map(int, description["actions"].get("shape", ()))))
            complete = int(description["max_steps"]) > 0 and description["packages"].items()
        else:
            complete = description["frame"] is None or math.prod(description["frame"]) > 0
        if not complete:
            raise ValueError("a number or a package is missing")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(f"{environment[:100]!r} describes no environment; leave the setting out") from None
    return description


@functools.lru_cache(256)
def _described(suite: Gymnasium, task: str) -> Mapping[str, Any]:
    from guidebench.suites.gymnasium.process import Host, Lost

    host = Host(suite.executable)
    try:
        description = host.call("describe", suite.reset_limit, recipe=suite.recipe(task)).header
    except Lost as error:
        raise UserError(f"task={task}: the environment cannot be made, since {error} (suite.reset_limit)") from None
    finally:
        host.close()
    if description["environment"]["max_steps"] is None:
        raise UserError(f"task={task}: nothing limits its episodes; add suite.max_steps=N")
    return {name: json.dumps(description[name]) for name in ("environment", "interpreter")}


@functools.lru_cache(256)
def _checked(suite: Gymnasium, task: str) -> Check:
    from guidebench.suites.gymnasium.task import check

    return check(suite, task)
